"""Advantages of turns: what the scores of its turns add to the advantage of an attempt, token by token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from rlft.config.training import Scale
from rlft.statistics import varies
from rlft.training.advantage import EPSILON
from rlft.types import Rollout

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
