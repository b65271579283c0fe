"""How much better a rollout is than its group."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rlft.statistics import varies

Scale = Literal["group", "batch", "none"]
EPSILON = 1e-4  # added to a standard deviation before dividing, as TRL does


def group_advantages(rewards: Tensor, groups: Tensor, scale: Scale = "group") -> Tensor:
    """Reward minus the mean of its group, divided by a standard deviation (arXiv:2402.03300, eq. 3).

    Args:
        rewards: Float [rollouts].
        groups: Int [rollouts], the same number for rollouts of one task; groups may differ in size.
        scale: Divide by the standard deviation of the `group`, of the whole `batch`, or by `none` (Dr. GRPO,
            arXiv:2503.20783). Standard deviations are the unbiased ones.

    Returns:
        Float [rollouts]. A group whose rewards are all equal gets exact zeros, whatever the rounding: it teaches
        nothing.
    """
    advantages = torch.zeros_like(rewards)
    batch_scale = rewards.std() if scale == "batch" and len(rewards) > 1 else None
    for group in groups.unique():
        rows = (groups == group).nonzero().squeeze(-1)
        if not varies(rewards[rows].tolist()):
            continue
        centred = rewards[rows] - rewards[rows].mean()
        if scale == "group":
            centred = centred / (rewards[rows].std() + EPSILON)
        elif batch_scale is not None:
            centred = centred / (batch_scale + EPSILON)
        advantages[rows] = centred
    return advantages
