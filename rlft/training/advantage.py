"""Advantages: how much better a rollout's reward, or a turn's score, is than those of other attempts at its task."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlft.config.training import Baseline, Scale
from rlft.evaluation.statistics import varies
from rlft.types import Reward, Rewards, Rollout


def step_scores(rewards: Rewards, reward: Reward) -> list[float | None]:
    """Return the score of each turn: the weighted sum of its parts that apply, `None` where none does.

    Empty for an attempt whose turns have no scores, or none with a weight.
    """
    parts = [(rewards.step_weights.get(name, 1.0), scores) for name, scores in reward.steps.items()]
    parts = [(weight, scores) for weight, scores in parts if weight != 0]
    turns = zip(*(scores for _, scores in parts), strict=True)
    return [_sum([(weight, score) for (weight, _), score in zip(parts, turn, strict=True)]) for turn in turns]


def cannot_be_told_apart(rewards: Rewards, group: Sequence[Reward]) -> bool:
    """Return whether nothing that attempts at one task are compared by varies among them, so that they teach nothing.

    Every question whether a group has something to train on is decided by this.
    """
    totals = [reward.total for reward in group]
    steps = [score for reward in group for score in step_scores(rewards, reward)]
    return not any(varies([value for value in column if value is not None]) for column in (totals, steps))


def _sum(weighted: Sequence[tuple[float, float | None]]) -> float | None:
    known = [weight * score for weight, score in weighted if score is not None]
    return math.fsum(known) if known else None


EPSILON = 1e-4  # added to a standard deviation before dividing, as TRL does


def group_advantages(
    rewards: Tensor, groups: Tensor, scale: Scale = "group", baseline: Baseline = "group_mean"
) -> Tensor:
    """Return each reward minus a baseline from its group, divided by a standard deviation (arXiv:2402.03300, eq. 3).

    Args:
        rewards: Float [rollouts], finite.
        groups: Int [rollouts], the same number for rollouts of one task; groups may differ in size.
        scale: Divide by the standard deviation of the `group`, of the whole `batch`, or by `none` (Dr. GRPO,
            arXiv:2503.20783). Standard deviations are the unbiased ones, plus 1e-4.
        baseline: `group_mean`, or `leave_one_out`, the mean of the others (RLOO, arXiv:2402.14740), which does not
            contain the reward it is compared with. In a group of n that is the difference to the group mean times
            n / (n - 1), so that once divided by a standard deviation it does little more than a larger learning rate.

    Returns:
        Float [rollouts]. A group whose rewards are equal but for rounding gets exact zeros, as it teaches nothing. TRL
        divides the rounding error by its own size, or by 1e-4, and trains on what is left.

    Raises ValueError for shapes that differ and rewards that are not finite.
    """
    if rewards.shape != groups.shape or rewards.ndim != 1:
        raise ValueError(f"rewards {list(rewards.shape)} and groups {list(groups.shape)} must both be [rollouts]")
    if not rewards.isfinite().all():
        raise ValueError("rewards must be finite: leave out rollouts whose score is an error")
    advantages = torch.zeros_like(rewards)
    for group in groups.unique():
        rows = (groups == group).nonzero().squeeze(-1)
        if not varies(rewards[rows].tolist()):
            continue
        centred = rewards[rows] - rewards[rows].mean()
        if baseline == "leave_one_out":
            centred = centred * (len(rows) / (len(rows) - 1))  # r_i - (sum - r_i) / (n - 1), without cancellation
        if scale != "none":
            centred = centred / ((rewards[rows] if scale == "group" else rewards).std() + EPSILON)
        advantages[rows] = centred
    return advantages


Steps = Sequence[float | None]
"""The score of each turn of an attempt; `None` for a turn without one."""


def turn_advantages(groups: Sequence[Sequence[Steps]], scale: Scale = "group") -> list[list[list[float]]]:
    """Return an advantage for each turn of each attempt, by group: GRPO's process supervision.

    The scores of all turns of a group, whichever attempts they are of, are centred by their mean and divided by their
    standard deviation; the advantage of a turn is the sum of these over it and the later turns (arXiv:2402.03300,
    section 4.1.3), so that a turn is credited with what came of it and not with what was before. A turn without a score
    adds nothing.

    Args:
        groups: For each group the scores of its attempts, which may differ in their number of turns.
        scale: Divide by the standard deviation in the `group`, in the whole `batch`, or by `none`. Standard deviations
            are the unbiased ones, plus 1e-4.

    Returns:
        The same shape. A group whose scores are equal but for rounding gets exact zeros.
    """
    known = [[score for steps in group for score in steps if score is not None] for group in groups]
    everything = [score for scores in known for score in scores]
    found: list[list[list[float]]] = []
    for group, scores in zip(groups, known, strict=True):
        if not varies(scores):
            found.append([[0.0] * len(steps) for steps in group])
            continue
        of_group = torch.tensor(scores, dtype=torch.float64)
        compared = of_group if scale == "group" else torch.tensor(everything, dtype=torch.float64)
        divisor = 1.0 if scale == "none" else compared.std().item() + EPSILON
        mean = of_group.mean().item()
        found.append([_to_go([0.0 if s is None else (s - mean) / divisor for s in steps]) for steps in group])
    return found


def spread(rollout: Rollout, advantage: float, turns: Sequence[float]) -> NDArray[np.float64]:
    """Return the advantage of each token after the prompt: that of the attempt plus that of the token's turn.

    `turns` has one for each turn. Shape (completion tokens,), 0 where no turn sampled the token.
    """
    places = turn_of_tokens(rollout)
    return np.where(places >= 0, advantage + np.append(turns, 0.0)[places], 0.0)


def count_turns(rollout: Rollout) -> int:
    """Return in how many turns the tokens of a rollout were sampled."""
    return int(turn_of_tokens(rollout).max(initial=-1)) + 1


def turn_of_tokens(rollout: Rollout) -> NDArray[np.int64]:
    """Return the number of the turn that sampled each token after the prompt, -1 where none did.

    Shape (completion tokens,). Turns are told apart by what the model read between them, which is never nothing.
    """
    sampled = rollout.loss_mask[rollout.prompt_length :]
    begins = np.diff(sampled.astype(np.int8), prepend=np.int8(0)) == 1
    return np.where(sampled, begins.cumsum() - 1, -1)


def _to_go(scores: Sequence[float]) -> list[float]:
    """Return for each place the sum from it to the end."""
    return np.cumsum(scores[::-1])[::-1].tolist()
