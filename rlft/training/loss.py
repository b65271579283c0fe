"""The GRPO family of policy losses, as a pure function of log-probabilities, advantages and masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

LossType = Literal["grpo", "bnpo", "dr_grpo", "dapo"]


@dataclass(frozen=True, slots=True)
class LossReport:
    """The loss (a scalar with gradient) and what it saw: sums over masked tokens, to be divided by `tokens`."""

    loss: Tensor
    tokens: float
    clipped_low: float
    clipped_high: float
    kl: float


def policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    loss_type: LossType = "dapo",
    epsilon: float = 0.2,
    epsilon_high: float | None = None,
    beta: float = 0.0,
    ref_logprobs: Tensor | None = None,
    max_completion_length: int | None = None,
    num_items: float | None = None,
    num_rollouts: int | None = None,
) -> LossReport:
    """Clipped surrogate loss (arXiv:1707.06347, eq. 7) with a KL penalty, normalised in one of four ways.

    Args:
        logprobs: Float [rollouts, tokens], of the policy that is trained.
        old_logprobs: Float [rollouts, tokens], of the policy that sampled.
        advantages: Float [rollouts].
        mask: [rollouts, tokens], 1 where the model sampled the token.
        loss_type: `grpo` mean over rollouts of the mean over their tokens (arXiv:2402.03300); `bnpo` and `dapo` mean
            over all tokens (arXiv:2503.14476); `dr_grpo` sum over tokens divided by rollouts times
            `max_completion_length` (arXiv:2503.20783).
        epsilon: How far a ratio may fall below 1 before it is clipped.
        epsilon_high: How far it may rise above 1; `None` means `epsilon`.
        beta: Weight of the KL to the reference, estimated by k3 (http://joschu.net/blog/kl-approx.html).
        ref_logprobs: Float [rollouts, tokens] of the reference; needed when `beta` is not 0.
        max_completion_length: Needed by `dr_grpo`.
        num_items: Tokens of the whole batch when this is only a part of it; `None` means the tokens of `mask`.
        num_rollouts: Rollouts of the whole batch when this is only a part; `None` means the rows given.

    Returns:
        LossReport; the losses of the parts of a batch add up to the loss of the batch.
    """
    keep, mask = mask.bool(), mask.to(logprobs.dtype)
    logprobs, old_logprobs = logprobs.where(keep, 0.0), old_logprobs.where(keep, 0.0)  # inf * 0 would be NaN
    high = epsilon if epsilon_high is None else epsilon_high
    ratio = (logprobs - old_logprobs).exp()
    clipped = ratio.clamp(1 - epsilon, 1 + high)
    advantage = advantages[:, None]
    per_token = -torch.minimum(ratio * advantage, clipped * advantage)
    kl = torch.zeros_like(logprobs)
    if beta:
        if ref_logprobs is None:
            raise ValueError("beta is not 0: ref_logprobs is needed")
        distance = ref_logprobs.where(keep, 0.0) - logprobs
        kl = distance.exp() - distance - 1
        per_token = per_token + beta * kl
    rollouts = num_rollouts or len(logprobs)
    if loss_type == "grpo":
        loss = ((per_token * mask).sum(-1) / mask.sum(-1).clamp(min=1)).sum() / rollouts
    elif loss_type == "dr_grpo":
        if max_completion_length is None:
            raise ValueError("dr_grpo needs max_completion_length")
        loss = (per_token * mask).sum() / (rollouts * max_completion_length)
    else:
        loss = (per_token * mask).sum() / (mask.sum().clamp(min=1) if num_items is None else num_items)
    with torch.no_grad():
        low = ((ratio < 1 - epsilon) & (advantage < 0)) * mask
        up = ((ratio > 1 + high) & (advantage > 0)) * mask
    return LossReport(
        loss=loss,
        tokens=mask.sum().item(),
        clipped_low=low.sum().item(),
        clipped_high=up.sum().item(),
        kl=(kl.detach() * mask).sum().item(),
    )
