"""Advantages: how much better a rollout's reward is than those of the other attempts at its task."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor

from rlft.config.training import Baseline, Scale
from rlft.statistics import varies

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

    Raises ValueError for unknown names, shapes that differ and rewards that are not finite.
    """
    for name, value, known in (("scale", scale, get_args(Scale)), ("baseline", baseline, get_args(Baseline))):
        if value not in known:
            raise ValueError(f"{name} {value!r} is unknown; use one of {', '.join(known)}")
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


def decoupled_advantages(scores: Tensor, weights: Tensor, groups: Tensor) -> Tensor:
    """Return the advantages of attempts whose parts are normalised one by one before they are summed (GDPO).

    In each group the mean of a part is taken from it, and it is divided by its standard deviation; the weighted sum of
    the parts is then divided by its standard deviation over the batch (arXiv:2601.05242).

    Args:
        scores: Float [rollouts, parts], NaN where a part does not apply, which then counts as its mean in the group.
        weights: Float [parts].
        groups: Int [rollouts], the same number for rollouts of one task; groups may differ in size.

    Returns:
        Float [rollouts]. A part that is equal in a group but for rounding adds exact zeros there. Standard deviations
        are the unbiased ones, plus 1e-4.

    Raises ValueError for shapes that differ and scores that are infinite.
    """
    if scores.ndim != 2 or weights.shape != scores.shape[1:] or groups.shape != scores.shape[:1]:
        shapes = f"scores {list(scores.shape)}, weights {list(weights.shape)} and groups {list(groups.shape)}"
        raise ValueError(f"{shapes} must be [rollouts, parts], [parts] and [rollouts]")
    if scores.isinf().any():
        raise ValueError("scores must be finite: leave out rollouts whose score is an error")
    summed = scores.new_zeros(len(scores))
    level = torch.ones(len(scores), dtype=torch.bool)
    for group in groups.unique():
        for part, weight in enumerate(weights.tolist()):
            rows = ((groups == group) & ~scores[:, part].isnan()).nonzero().squeeze(-1)
            found = scores[rows, part]
            if varies(found.tolist()):
                summed[rows] += weight * (found - found.mean()) / (found.std() + EPSILON)
                level[groups == group] = False
    deviation = summed.std() + EPSILON if len(summed) > 1 else 1.0
    return ((summed - summed.mean()) / deviation).masked_fill(level, 0.0)
