"""Sampling: keys and values of every different prompt once, and of each row's own tokens after it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlft.attention.partial import attend, merge_

_WORTH_REMOVING = 7 / 8  # fewer live rows than this share of those kept: the others are taken out
_WORTH_RECORDING = 1 / 2  # the same where the operations are then recorded anew


class GroupCache:
    """The `Attention` of sampling: first one pass over the prompts, then one token a row at a time.

    The rows of a group attend to their prompt's keys together, as one batch of queries, and to their own keys apart.
    """

    def __init__(
        self, prompt_lengths: Sequence[int], prompt_of_row: Sequence[int], capacity: int, *, fixed: bool = False
    ) -> None:
        """`prompt_lengths` in tokens, `prompt_of_row` one index a row, `capacity` the most new tokens of a row.

        With `fixed` every token does the same operations on the same memory, so that a GPU can replay them: what a row
        has not reached yet is masked, not left out.
        """
        self.fixed = fixed
        self.prompt_lengths = torch.tensor(prompt_lengths)
        self.prompt_of_row = torch.tensor(prompt_of_row)
        self.capacity = capacity
        self.length: int | None = None  # tokens after the prompt; None until the prompts are encoded
        self.prompt_keys: dict[int, tuple[Tensor, Tensor]] = {}
        self.row_keys: dict[int, tuple[Tensor, Tensor]] = {}
        self._table: _Table | None = None
        self._place = self._beyond = torch.empty(0)  # where the new token goes, and the mask of what comes after it

    def begin_rows(self) -> None:
        """The prompts are encoded; from now on there is one query a row."""
        self.length = 0
        if self.fixed:
            like = next(iter(self.prompt_keys.values()))[0]
            self._place = torch.zeros(1, dtype=torch.int64, device=like.device)
            self._beyond = torch.full((1, 1, 1, self.capacity), -torch.inf, dtype=like.dtype, device=like.device)
            self._beyond[..., 0] = 0

    def advance(self) -> None:
        """All layers have seen the current token."""
        assert self.length is not None
        self.length += 1
        if self.fixed and self.length < self.capacity:
            self._place.fill_(self.length)
            self._beyond[..., self.length] = 0

    def keep(self, rows: Tensor) -> bool:
        """Take all other rows out and return true; or false when they are too few to be worth a copy."""
        if len(rows) > (_WORTH_RECORDING if self.fixed else _WORTH_REMOVING) * len(self.prompt_of_row):
            return False
        self.prompt_of_row = self.prompt_of_row[rows.cpu()]
        self._table = None
        for layer, (keys, values) in self.row_keys.items():
            self.row_keys[layer] = (keys[rows], values[rows])
        return True

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """[prompts or rows, heads, tokens, width] in and out."""
        if self.length is None:
            self.prompt_keys[layer] = (key.contiguous(), value.contiguous())
            return attend(query, key, value, scale=scale, causal=True)[0]
        if self._table is None:
            self._table = _Table.of(self.prompt_lengths, self.prompt_of_row, query)
        output, log_sum_exp = self._table.attend(query, *self.prompt_keys[layer], scale)
        own, own_log_sum_exp = self._attend_own(layer, query, key, value, scale)
        merge_(output, log_sum_exp, own, own_log_sum_exp)
        return output

    def _attend_own(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        """Attention to the row's tokens after its prompt, the new one among them."""
        assert self.length is not None
        if layer not in self.row_keys:
            shape = (*key.shape[:2], self.capacity, key.shape[3])
            self.row_keys[layer] = (key.new_zeros(shape), key.new_zeros(shape))  # masked, but not no number
        keys, values = self.row_keys[layer]
        heads = query.shape[1]
        folded = query[:, :, 0].unflatten(1, (key.shape[1], -1))  # heads that share a key become its queries
        if self.fixed:
            keys.index_copy_(2, self._place, key)
            values.index_copy_(2, self._place, value)
            output, log_sum_exp = attend(folded, keys, values, scale=scale, mask=self._beyond)
        else:
            keys[:, :, self.length], values[:, :, self.length] = key[:, :, 0], value[:, :, 0]
            seen = slice(self.length + 1)
            output, log_sum_exp = attend(folded, keys[:, :, seen], values[:, :, seen], scale=scale)
        return output.reshape(len(query), heads, 1, -1), log_sum_exp.reshape(len(query), heads, 1)


class _Table:
    """Where each row's query stands among those of its prompt."""

    def __init__(self, index: Tensor, place: Tensor, mask: Tensor | None) -> None:
        self.index, self.place, self.mask = index, place, mask

    @classmethod
    def of(cls, prompt_lengths: Tensor, prompt_of_row: Tensor, like: Tensor) -> _Table:
        counts = prompt_of_row.bincount(minlength=len(prompt_lengths))
        order = prompt_of_row.argsort(stable=True)
        slots = torch.empty_like(order)
        slots[order] = torch.arange(len(order)) - (counts.cumsum(0) - counts)[prompt_of_row[order]]
        index = torch.zeros(len(prompt_lengths), int(counts.max()), dtype=torch.int64)
        index[prompt_of_row, slots] = torch.arange(len(order))
        place = prompt_of_row * index.shape[1] + slots
        longest = int(prompt_lengths.max())
        mask = None
        if (prompt_lengths < longest).any():
            beyond = torch.arange(longest) >= prompt_lengths[:, None]
            mask = torch.zeros(beyond.shape, dtype=like.dtype).masked_fill(beyond, -torch.inf)[:, None, None]
            mask = mask.to(like.device)
        return cls(index.to(like.device), place.to(like.device), mask)

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        """[rows, heads, 1, width] to the output of the prompts' keys, same shape, and its log-sum-exp."""
        _, heads, _, width = query.shape
        key_heads = keys.shape[1]
        gathered = query[:, :, 0][self.index]  # [prompts, slots, heads, width]
        gathered = gathered.unflatten(2, (key_heads, -1)).transpose(1, 2).flatten(2, 3)
        output, log_sum_exp = attend(gathered, keys, values, scale=scale, mask=self.mask)
        slots = self.index.shape[1]
        output = output.unflatten(2, (slots, -1)).transpose(1, 2).reshape(-1, heads, 1, width)
        log_sum_exp = log_sum_exp.unflatten(2, (slots, -1)).transpose(1, 2).reshape(-1, heads, 1)
        return output[self.place], log_sum_exp[self.place]
