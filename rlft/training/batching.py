"""Makes tensors of stored rollouts, in parts that fit a token budget.

A part is encoded in one of two ways: packed, with each prompt once (`pack_groups`), or as one padded row per rollout
(`pad_rows`). Both give a `Batch`, which says where every sampled token is predicted, so that the code after them is the
same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rlft.attention.packed import Group, PackedGroups
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
    (`rollouts[i]`, `columns[i]`).
    """

    token_ids: Tensor
    positions: Tensor
    attention_mask: Tensor | None
    attention: PackedGroups | None
    sources: Tensor
    targets: Tensor
    rollouts: Tensor
    columns: Tensor
    mask: Tensor
    logprobs: Tensor
    advantages: Tensor

    def spread(self, values: Tensor) -> Tensor:
        """Return one value per sampled token as [rollouts, tokens], with zeros elsewhere; gradients flow through it."""
        return values.new_zeros(self.mask.shape).index_put((self.rollouts, self.columns), values)


def pack_groups(pairs: Sequence[Pair], device: torch.device, *, joins_single: bool = False) -> Batch:
    """Make a batch of one row in which every prompt stands once, followed by its completions without padding.

    With `joins_single` the rollouts that share their prompt with no other are put side by side as whole sequences,
    whose attention is computed for many at once, which is faster. Raises ValueError for a rollout without a prompt, as
    `pad_rows` does.
    """
    row, single = _PackedRow(pairs), list[int]()
    for prompt, members in _by_prompt(pairs):
        if joins_single and len(members) == 1:
            single += members
        else:
            row.add_group(len(prompt), members)
    if single:
        row.add_whole(single)
    ids, positions = (
        torch.from_numpy(np.concatenate(part).astype(np.int64))[None] for part in (row.ids, row.positions)
    )
    return _batch(pairs, ids, positions, None, PackedGroups(row.groups), row.sources, device)


class _PackedRow:
    """Puts groups of rollouts one after the other, and notes where the tokens after each prompt are predicted."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._pairs, self._end = pairs, 0
        self.ids: list[np.ndarray] = []
        self.positions: list[np.ndarray] = []
        self.groups: list[Group] = []
        self.sources: dict[int, np.ndarray] = {}

    def add_group(self, prompt: int, members: Sequence[int]) -> None:
        """Add a prompt of so many tokens and the completions of these rollouts, from long to short."""
        lengths = [_encoded(self._pairs[member][0]) for member in members]
        self.groups.append(Group(self._end, prompt, tuple(lengths)))
        self._add(members[0], 0, prompt)
        last_of_prompt = self._end - 1
        for member, length in zip(members, lengths, strict=True):
            # A completion's first token is predicted at the prompt's last one, which the whole group has in common.
            self.sources[member] = np.concatenate([[last_of_prompt], np.arange(self._end, self._end + length)])
            self._add(member, prompt, length)

    def add_whole(self, members: Sequence[int]) -> None:
        """Add these rollouts as sequences that have no prompt in common."""
        lengths = {
            member: self._pairs[member][0].prompt_length + _encoded(self._pairs[member][0]) for member in members
        }
        ordered = sorted(members, key=lambda member: -lengths[member])
        self.groups.append(Group(self._end, 0, tuple(lengths[member] for member in ordered)))
        for member in ordered:
            first = self._end + self._pairs[member][0].prompt_length - 1
            self._add(member, 0, lengths[member])
            self.sources[member] = np.arange(first, self._end)

    def _add(self, member: int, start: int, length: int) -> None:
        self.ids.append(self._pairs[member][0].token_ids[start : start + length])
        self.positions.append(np.arange(start, start + length))
        self._end += length


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


def split_groups(groups: Sequence[Sequence[Pair]], budget: int) -> Iterator[list[Pair]]:
    """Yield parts whose packed size is at most `budget` tokens, a prompt counted once in each part.

    A group that does not fit is cut; its prompt is then encoded once in every part. A rollout that exceeds the budget
    alone is a part of its own.
    """
    part: list[Pair] = []
    used = 0
    for group in groups:
        prompts: set[bytes] = set()
        for pair in sorted(group, key=lambda pair: -_encoded(pair[0])):
            prompt = _prompt(pair[0]).tobytes()
            cost = _encoded(pair[0]) + (0 if prompt in prompts else pair[0].prompt_length)
            if part and used + cost > budget:
                yield part
                part, used, prompts = [], 0, set()
                cost = _encoded(pair[0]) + pair[0].prompt_length
            part.append(pair)
            used += cost
            prompts.add(prompt)
    if part:
        yield part


def packed_tokens(pairs: Sequence[Pair]) -> int:
    """Return how many tokens long the row is that `pack_groups` makes of these rollouts."""
    return sum(
        len(prompt) + sum(_encoded(pairs[member][0]) for member in members) for prompt, members in _by_prompt(pairs)
    )


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


def _prompt(rollout: Rollout) -> np.ndarray:
    return rollout.token_ids[: rollout.prompt_length]


def _encoded(rollout: Rollout) -> int:
    """Return how many tokens after the prompt the model must read: those before the last sampled one."""
    sampled = np.flatnonzero(rollout.loss_mask)
    return max(int(sampled[-1]) - rollout.prompt_length, 0) if len(sampled) else 0


def _by_prompt(pairs: Sequence[Pair]) -> Iterator[tuple[np.ndarray, list[int]]]:
    """Yield each different prompt with the indices of its rollouts, long completions first, as `Group` wants them."""
    members: dict[bytes, list[int]] = {}
    for number, (rollout, _) in enumerate(pairs):
        members.setdefault(_prompt(rollout).tobytes(), []).append(number)
    for numbers in members.values():
        yield _prompt(pairs[numbers[0]][0]), sorted(numbers, key=lambda number: -_encoded(pairs[number][0]))


def _batch(
    pairs: Sequence[Pair],
    token_ids: Tensor,
    positions: Tensor,
    attention_mask: Tensor | None,
    attention: PackedGroups | None,
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
    )


def _advantages(pairs: Sequence[Pair], width: int) -> Tensor:
    """Return float32 [rollouts], or [rollouts, width] if there is an advantage per token in one of them."""
    if not any(isinstance(advantage, np.ndarray) for _, advantage in pairs):
        return torch.tensor([advantage for _, advantage in pairs], dtype=torch.float32)
    found = torch.zeros(len(pairs), width)
    for row, (rollout, advantage) in zip(found, pairs, strict=True):
        row[: rollout.completion_length] = torch.as_tensor(advantage, dtype=torch.float32)
    return found
