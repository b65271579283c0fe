"""Makes tensors of stored rollouts, in parts that fit a token budget.

A part is encoded in one of two ways: packed, with each common beginning once (`pack_tree`), or as one padded row per
rollout (`pad_rows`). Both give a `Batch`, which says where every sampled token is predicted, so that the code after
them is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rlft.attention.packed import PackedTree
from rlft.attention.tree import Tree
from rlft.types import Rollout

Advantage = float | np.ndarray
"""The advantage of a rollout, or of each token after its prompt, float64 (completion tokens,)."""
Pair = tuple[Rollout, Advantage]


@dataclass(frozen=True, slots=True)
class Batch:
    """Holds rollouts as the model's inputs, and what is known of their sampled tokens.

    The inputs are `token_ids` and `positions` [rows, width], with either `attention` (packed, 1 row) or
    `attention_mask` [rows, width] (padded). By rollout there are `mask` (true where the model sampled the token) and
    `logprobs` (recorded at sampling), both [rollouts, tokens], counted from the end of the prompt, and `advantages`,
    [rollouts], or [rollouts, tokens] if a rollout has one for each of its tokens. The sampled tokens have the ids
    `targets`; token i is predicted at place `sources[i]` of the flattened rows, and its place in `mask` is
    (`rollouts[i]`, `columns[i]`). `tokens_of_sequences` is what the inputs would come to one by one.
    """

    token_ids: Tensor
    positions: Tensor
    attention_mask: Tensor | None
    attention: PackedTree | None
    sources: Tensor
    targets: Tensor
    rollouts: Tensor
    columns: Tensor
    mask: Tensor
    logprobs: Tensor
    advantages: Tensor
    tokens_of_sequences: int

    def spread(self, values: Tensor) -> Tensor:
        """Return one value per sampled token as [rollouts, tokens], with zeros elsewhere; gradients flow through it."""
        return values.new_zeros(self.mask.shape).index_put((self.rollouts, self.columns), values)


def pack_tree(pairs: Sequence[Pair], device: torch.device) -> Batch:
    """Make a batch of one row in which every common beginning stands once, without padding.

    Raises ValueError for a rollout without a prompt, as `pad_rows` does.
    """
    tree = _tree(pairs)
    ids, positions = (torch.from_numpy(part)[None] for part in tree.row(map(_read, pairs)))
    # A completion's first token is predicted at the prompt's last one, which all that share the prompt have in common.
    sources = {number: tree.places[number][max(pair[0].prompt_length - 1, 0) :] for number, pair in enumerate(pairs)}
    return _batch(pairs, ids, positions, None, PackedTree(tree.edges), sources, device)


def pad_rows(pairs: Sequence[Pair], device: torch.device) -> Batch:
    """Make a batch with a row per rollout, prompt included, padded on the right."""
    lengths = [rollout.prompt_length + _encoded(rollout) for rollout, _ in pairs]
    shape = (len(pairs), max(lengths))
    ids, attention = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape, dtype=torch.int64)
    sources = {}
    for number, ((rollout, _), length) in enumerate(zip(pairs, lengths, strict=True)):
        ids[number, :length] = torch.as_tensor(rollout.token_ids[:length], dtype=torch.int64)
        attention[number, :length] = 1
        sources[number] = number * shape[1] + np.arange(rollout.prompt_length - 1, length)
    positions = torch.arange(shape[1]).expand(shape)
    return _batch(pairs, ids, positions, attention, None, sources, device)


def split_tree(pairs: Sequence[Pair], budget: int) -> Iterator[list[Pair]]:
    """Yield parts whose packed size is at most `budget` tokens, and that end where the least is shared with the next.

    What two parts have in common is encoded in both. A rollout that exceeds the budget alone is a part of its own.
    """
    tree = _tree(pairs)
    start = 0
    while start < len(pairs):
        used, stop = len(tree.places[tree.order[start]]), start + 1
        while stop < len(pairs) and used + (cost := len(tree.places[tree.order[stop]]) - tree.shared[stop]) <= budget:
            used, stop = used + cost, stop + 1
        if stop < len(pairs):
            stop = min(range(stop, start, -1), key=tree.shared.__getitem__)
        yield [pairs[number] for number in tree.order[start:stop]]
        start = stop


def packed_tokens(pairs: Sequence[Pair]) -> int:
    """Return how many tokens long the row is that `pack_tree` makes of these rollouts."""
    return _tree(pairs).size


def split_by_tokens(pairs: Sequence[Pair], budget: int) -> Iterator[list[Pair]]:
    """Yield parts whose padded size, rows times longest, is at most `budget` tokens.

    Rollouts are taken in the order of their length, so that little is padding. One that exceeds the budget alone is a
    part of its own.
    """
    part: list[Pair] = []
    for pair in sorted(pairs, key=lambda pair: len(pair[0].token_ids)):
        if part and (len(part) + 1) * len(pair[0].token_ids) > budget:
            yield part
            part = []
        part.append(pair)
    if part:
        yield part


def _tree(pairs: Sequence[Pair]) -> Tree:
    return Tree.of([_read(pair) for pair in pairs], [rollout.prompt_length for rollout, _ in pairs])


def _read(pair: Pair) -> np.ndarray:
    """Return the tokens that the model must read: those before the last sampled one."""
    return pair[0].token_ids[: pair[0].prompt_length + _encoded(pair[0])]


def _encoded(rollout: Rollout) -> int:
    """Return how many tokens after the prompt the model must read: those before the last sampled one."""
    sampled = np.flatnonzero(rollout.loss_mask)
    return max(int(sampled[-1]) - rollout.prompt_length, 0) if len(sampled) else 0


def _batch(
    pairs: Sequence[Pair],
    token_ids: Tensor,
    positions: Tensor,
    attention_mask: Tensor | None,
    attention: PackedTree | None,
    predicted_at: dict[int, np.ndarray],
    device: torch.device,
) -> Batch:
    """Make a batch of the model's inputs and what is known of the sampled tokens.

    `predicted_at` holds, for each rollout, the place in the flattened rows where each of its columns is predicted.
    """
    for rollout, _ in pairs:
        if rollout.prompt_length < 1:
            raise ValueError(f"rollout {rollout.rollout_id} has no prompt: nothing predicts its first token")
    width = max(rollout.completion_length for rollout, _ in pairs)
    mask = torch.zeros(len(pairs), width, dtype=torch.bool)
    logprobs = torch.zeros(len(pairs), width)
    found: list[tuple[np.ndarray, ...]] = []
    for number, (rollout, _) in enumerate(pairs):
        sampled = np.flatnonzero(rollout.loss_mask)
        columns = sampled - rollout.prompt_length
        found.append(
            (predicted_at[number][columns], rollout.token_ids[sampled], np.full_like(columns, number), columns)
        )
        mask[number, columns] = True
        logprobs[number, columns] = torch.from_numpy(rollout.logprobs[sampled])
    sources, targets, rows, columns = (
        torch.from_numpy(np.concatenate(part)).long() for part in zip(*found, strict=True)
    )
    return Batch(
        token_ids=token_ids.to(device),
        positions=positions.to(device),
        attention_mask=None if attention_mask is None else attention_mask.to(device),
        attention=attention,
        sources=sources.to(device),
        targets=targets.to(device),
        rollouts=rows.to(device),
        columns=columns.to(device),
        mask=mask.to(device),
        logprobs=logprobs.to(device),
        advantages=_advantages(pairs, width).to(device),
        tokens_of_sequences=sum(len(_read(pair)) for pair in pairs),
    )


def _advantages(pairs: Sequence[Pair], width: int) -> Tensor:
    """Return float32 [rollouts], or [rollouts, width] if there is an advantage per token in one of them."""
    if not any(isinstance(advantage, np.ndarray) for _, advantage in pairs):
        return torch.tensor([advantage for _, advantage in pairs], dtype=torch.float32)
    found = torch.zeros(len(pairs), width)
    for row, (rollout, advantage) in zip(found, pairs, strict=True):
        row[: rollout.completion_length] = torch.as_tensor(advantage, dtype=torch.float32)
    return found
