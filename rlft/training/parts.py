"""Splits rollouts into parts that fit into memory, and makes batches of them as the policy can read them."""

from __future__ import annotations

from collections.abc import Sequence

from rlft.policy import Policy
from rlft.training.batching import Batch, Pair, pack_tree, packed_tokens, pad_rows, split_by_tokens, split_tree

# Tokens of a part. Larger ones are no faster on a CPU: memory that is freed between them is paged in again.
_CPU_TOKENS, _GPU_TOKENS = 3072, 16384


def split_parts(policy: Policy, groups: Sequence[Sequence[Pair]], budget: int | None = None) -> list[list[Pair]]:
    """Return the rollouts of groups in parts of at most `budget` tokens (`training.per_step_token_budget`)."""
    most = _default_budget(policy, groups) if budget is None else budget
    split = split_tree if policy.shares_prompts else split_by_tokens
    return list(split([pair for group in groups for pair in group], most))


def make_batch(policy: Policy, pairs: Sequence[Pair]) -> Batch:
    """Return rollouts as a batch: packed where the policy can read that, or else padded."""
    return (pack_tree if policy.shares_prompts else pad_rows)(pairs, policy.device)


def _default_budget(policy: Policy, groups: Sequence[Sequence[Pair]]) -> int:
    """Return how many tokens a part may have where no setting says so.

    A CPU takes a group whole where a GPU would, as cutting it would encode its prompt again.
    """
    if policy.device.type != "cpu":
        return _GPU_TOKENS
    return min(max(_CPU_TOKENS, *map(packed_tokens, groups), 0), _GPU_TOKENS)
