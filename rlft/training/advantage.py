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
