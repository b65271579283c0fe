"""A cache of keys and values for sampling that keeps every different prompt once, however many rows share it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlft.attention.partial import attend, merge_

# Finished rows are taken out once at most this share of the kept rows is still alive: copying the cache costs more than
# feeding a few finished rows. With `fixed` it must save more, since a GPU's operations are then recorded anew as well.
_WORTH_REMOVING, _WORTH_REMOVING_FIXED = 7 / 8, 1 / 2


class GroupCache:
    """Computes the attention of sampling: in one pass over the prompts, then in passes of one token per row.

    A row is one completion. The rows of a group attend to their prompt's keys together, as one batch of queries, and
    each to the keys of its own tokens apart. Call `begin_rows` after the pass over the prompts, and `advance` after
    every other one.
    """

    def __init__(
        self, prompt_lengths: Sequence[int], prompt_of_row: Sequence[int], capacity: int, *, fixed: bool = False
    ) -> None:
        """Start with nothing cached.

        `prompt_lengths` are in tokens, `prompt_of_row` holds the index of each row's prompt in them, and `capacity` is
        the largest number of new tokens per row. With `fixed` every token does the same operations on the same memory,
        so that a CUDA graph can replay them: positions that no row has reached yet are masked, not left out.
        """
        self.fixed = fixed
        self.prompt_lengths = torch.tensor(prompt_lengths)
        self.prompt_of_row = torch.tensor(prompt_of_row)
        self.capacity = capacity
        self.length: int | None = None  # new tokens of each row so far; None until the prompts are encoded
        self.prompt_keys: dict[int, tuple[Tensor, Tensor]] = {}
        self.row_keys: dict[int, tuple[Tensor, Tensor]] = {}
        self._table: _Table | None = None
        # With `fixed`, as tensors, since a CUDA graph records memory and no Python numbers: the column that the next
        # token is written to, and the mask that is added to the scores of all columns, -inf beyond that one.
        self._place = self._beyond = torch.empty(0)

    def begin_rows(self) -> None:
        """Note that the prompts are encoded: from now on every pass has one query per row."""
        self.length = 0
        if self.fixed:
            like = next(iter(self.prompt_keys.values()))[0]
            self._place = torch.zeros(1, dtype=torch.int64, device=like.device)
            self._beyond = torch.full((1, 1, 1, self.capacity), -torch.inf, dtype=like.dtype, device=like.device)
            self._beyond[..., 0] = 0

    def advance(self) -> None:
        """Note that all layers have seen the current token, so that the next one is written behind it."""
        assert self.length is not None
        self.length += 1
        if self.fixed and self.length < self.capacity:
            self._place.fill_(self.length)
            self._beyond[..., self.length] = 0

    def keep(self, rows: Tensor) -> bool:
        """Take out all rows but these (indices of the present ones) and return true; false if that is not worth it."""
        if len(rows) > (_WORTH_REMOVING_FIXED if self.fixed else _WORTH_REMOVING) * len(self.prompt_of_row):
            return False
        self.prompt_of_row = self.prompt_of_row[rows.cpu()]
        self._table = None
        for layer, (keys, values) in self.row_keys.items():
            self.row_keys[layer] = (keys[rows], values[rows])
        return True

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Return the attention's output, [prompts or rows, heads, tokens, width] as the query, and keep key and value.

        Before `begin_rows` the batch is the prompts, afterwards the rows, with one token each.
        """
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
        """Return output and log-sum-exp of attention to each row's tokens after its prompt, the new one included."""
        assert self.length is not None
        if layer not in self.row_keys:
            shape = (*key.shape[:2], self.capacity, key.shape[3])
            # Zeros and not empty: with `fixed` masked values are multiplied by 0, which would keep a NaN in them.
            self.row_keys[layer] = (key.new_zeros(shape), key.new_zeros(shape))
        keys, values = self.row_keys[layer]
        heads = query.shape[1]
        folded = query[:, :, 0].unflatten(1, (key.shape[1], -1))  # heads that share a key head become its queries
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
    """Sorts the rows by prompt, so that all queries of a prompt are one batch over its keys.

    A prompt has as many slots as the largest group has rows. `index` [prompts, slots] is the row in each slot (row 0 in
    unused ones, whose result is not read), `place` [rows] is each row's slot, counted through all prompts, and `mask`
    [prompts, 1, 1, keys] hides the padding of shorter prompts (`None` if all have the same length).
    """

    def __init__(self, index: Tensor, place: Tensor, mask: Tensor | None) -> None:
        self.index, self.place, self.mask = index, place, mask

    @classmethod
    def of(cls, prompt_lengths: Tensor, prompt_of_row: Tensor, like: Tensor) -> _Table:
        """Return the table of these rows, on the device and with the mask in the type of `like`."""
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
        """Return output and log-sum-exp of attention to the keys of each row's prompt.

        `query` and output are [rows, heads, 1, width], `keys` and `values` [prompts, key heads, tokens, width], and the
        log-sum-exp is [rows, heads, 1].
        """
        _, heads, _, width = query.shape
        key_heads = keys.shape[1]
        gathered = query[:, :, 0][self.index]  # [prompts, slots, heads, width]
        gathered = gathered.unflatten(2, (key_heads, -1)).transpose(1, 2).flatten(2, 3)
        output, log_sum_exp = attend(gathered, keys, values, scale=scale, mask=self.mask)
        slots = self.index.shape[1]
        output = output.unflatten(2, (slots, -1)).transpose(1, 2).reshape(-1, heads, 1, width)
        log_sum_exp = log_sum_exp.unflatten(2, (slots, -1)).transpose(1, 2).reshape(-1, heads, 1)
        return output[self.place], log_sum_exp[self.place]
