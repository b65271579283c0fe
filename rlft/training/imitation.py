"""Imitates rollouts by cross-entropy: supervised fine-tuning, and the control by rejection sampling.

Rollouts are read as GRPO reads them: common beginnings once where the model allows it, without padding there, in parts
that fit a token budget, with logits at the imitated tokens alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rlft.attention.interface import attending
from rlft.flops import ModelShape, training_flops
from rlft.policy import Policy
from rlft.policy.fused import fused
from rlft.training.batching import Pair
from rlft.training.logprobs import gradient_checkpointing, make_batch, split_parts, token_logprobs
from rlft.types import Rollout


def imitate(
    policy: Policy,
    rollouts: Sequence[Rollout],
    *,
    temperature: float = 1.0,
    token_budget: int | None = None,
    checkpointing: bool = False,
) -> float:
    """Add the gradients of the mean cross-entropy over the sampled tokens of `rollouts`; return that mean, in nats.

    The distribution is that at `temperature`. `token_budget` and `checkpointing` are the settings
    `training.per_step_token_budget` and `training.gradient_checkpointing`.
    `policy.find_out` must have been called before its model was changed.
    """
    pairs: list[Pair] = [(rollout, 0.0) for rollout in rollouts]  # an advantage is not needed
    tokens = max(1, sum(int(rollout.loss_mask.sum()) for rollout in rollouts))
    parts = split_parts(policy, [[pair] for pair in pairs], token_budget)
    return sum(_backward(policy, part, tokens, temperature, checkpointing) for part in parts)


def imitation_flops(shape: ModelShape, rollouts: Sequence[Rollout], *, shares_prompts: bool) -> float:
    """Return the FLOPs of `imitate` on these rollouts."""
    trained = {rollout.rollout_id for rollout in rollouts}
    return training_flops(shape, rollouts, trained, updates=1, iterations=1, shares_prompts=shares_prompts)


def _backward(policy: Policy, pairs: Sequence[Pair], tokens: int, temperature: float, checkpointing: bool) -> float:
    """Add this part's gradients and return its share of the mean over `tokens`."""
    batch = make_batch(policy, pairs)
    packed: AbstractContextManager[Any] = attending(policy.model) if batch.attention else nullcontext()
    with packed, gradient_checkpointing(policy.model, checkpointing), fused(policy.fusible):
        found = token_logprobs(policy, batch, temperature, with_entropy=False)
        loss = -found.logprobs.sum() / tokens
        loss.backward()
    return float(loss.detach())
