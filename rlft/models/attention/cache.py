"""A cache of keys and values for sampling that keeps every common beginning once, however many rows share it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlft.models.attention.packed import Edge, PackedTree, Tree, attend, merge_

# Finished rows are taken out once at most this share of the kept rows is still alive: copying the cache costs more than
# feeding a few finished rows. With `fixed` it must save more, since a GPU's operations are then recorded anew as well.
_WORTH_REMOVING, _WORTH_REMOVING_FIXED = 7 / 8, 1 / 2


class TreeCache:
    """Computes the attention of sampling: in one pass over the row of the prompts, then in passes of one token per row.

    A row of the latter is one completion. Rows whose prompts begin alike attend to the keys of that beginning together,
    as one batch of queries, and each to the keys of its own tokens apart. Call `begin_rows` after the pass over the
    prompts, and `advance` after every other one.
    """

    def __init__(self, tree: Tree, prompt_of_row: Sequence[int], capacity: int, *, fixed: bool = False) -> None:
        """Start with nothing cached.

        `tree` holds the prompts, `prompt_of_row` the index of each row's prompt in it, and `capacity` is
        the largest number of new tokens per row. With `fixed` every token does the same operations on the same memory,
        so that a CUDA graph can replay them: positions that no row has reached yet are masked, not left out.
        """
        self.fixed = fixed
        self.tree, self.packed = tree, PackedTree(tree.edges)
        self.prompt_of_row = torch.tensor(prompt_of_row)
        self.capacity = capacity
        self.length: int | None = None  # new tokens of each row so far; None until the prompts are encoded
        self.prompt_keys: dict[int, tuple[Tensor, Tensor]] = {}  # as a row, until the edges are taken out of it
        self.edge_keys: dict[int, list[tuple[Tensor, Tensor]]] = {}  # by level
        self.row_keys: dict[int, tuple[Tensor, Tensor]] = {}
        self._levels: list[_Level] = []

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
        self._levels = []
        for layer, (keys, values) in self.row_keys.items():
            self.row_keys[layer] = (keys[rows], values[rows])
        return True

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Return the attention's output, [1 or rows, heads, tokens, width] as the query, and keep key and value.

        Before `begin_rows` the batch is the row of the prompts, afterwards the rows, with one token each.
        """
        if self.length is None:
            self.prompt_keys[layer] = (key[0], value[0])
            return self.packed.attend(layer, query, key, value, scale)
        if not self._levels:
            self._levels = _levels(self.tree, self.prompt_of_row.tolist(), query)
        if layer not in self.edge_keys:
            keys, values = self.prompt_keys.pop(layer)
            self.edge_keys[layer] = [(level.take(keys), level.take(values)) for level in self._levels]
        output, log_sum_exp = self._attend_own(layer, query, key, value, scale)
        for level, (keys, values) in zip(self._levels, self.edge_keys[layer], strict=True):
            level.merge_into(output, log_sum_exp, query, keys, values, scale)
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


class _Level:
    """Sorts the rows by the edges of one level of the tree, so that an edge's queries are one batch.

    An edge has as many slots as the largest has rows. `rows` are those that have such an edge (`None` if all have),
    `index` [edges, slots] is the row in each slot (row 0 in unused ones, whose result is not read), `place` [rows] is
    each row's slot, counted through all edges, `tokens` [edges, longest] where the tokens of the edges stand in the row
    of the prompts, and `mask` [edges, 1, 1, longest] hides what shorter edges lack (`None` if none is shorter).
    """

    def __init__(self, edges: Sequence[Edge], edge_of_row: Sequence[int | None], like: Tensor) -> None:
        """Take the edges of this level, and for each row the index of its edge among them."""
        rows = [row for row, edge in enumerate(edge_of_row) if edge is not None]
        slots = [[row for row, edge in enumerate(edge_of_row) if edge == number] for number in range(len(edges))]
        most = max(1, *map(len, slots))
        places = {row: number * most + slot for number, of in enumerate(slots) for slot, row in enumerate(of)}
        self.index = torch.tensor([of + [0] * (most - len(of)) for of in slots], device=like.device)
        self.place = torch.tensor([places[row] for row in rows], dtype=torch.int64, device=like.device)
        whole = len(rows) == len(edge_of_row)
        self.rows = None if whole else torch.tensor(rows, dtype=torch.int64, device=like.device)
        lengths = torch.tensor([edge.stop - edge.start for edge in edges])
        columns = torch.arange(int(lengths.max()))
        starts = torch.tensor([edge.start for edge in edges])
        self.tokens = (starts[:, None] + columns.minimum(lengths[:, None] - 1)).to(like.device)
        beyond = columns >= lengths[:, None]
        mask = torch.zeros(beyond.shape, dtype=like.dtype).masked_fill(beyond, -torch.inf)[:, None, None]
        self.mask = mask.to(like.device) if beyond.any() else None

    def take(self, row: Tensor) -> Tensor:
        """Return the prompts' keys or values [key heads, tokens, width] as [edges, key heads, longest, width]."""
        return row[:, self.tokens].transpose(0, 1).contiguous()

    def merge_into(
        self, output: Tensor, log_sum_exp: Tensor, query: Tensor, keys: Tensor, values: Tensor, scale: float
    ) -> None:
        """Merge attention to the keys of each row's edge into `output` and `log_sum_exp`.

        `query` and `output` are [rows, heads, 1, width], the log-sum-exp is [rows, heads, 1].
        """
        _, heads, _, width = query.shape
        gathered = query[:, :, 0][self.index]  # [edges, slots, heads, width]
        gathered = gathered.unflatten(2, (keys.shape[1], -1)).transpose(1, 2).flatten(2, 3)
        found, sums = attend(gathered, keys, values, scale=scale, mask=self.mask)
        slots = self.index.shape[1]
        found = found.unflatten(2, (slots, -1)).transpose(1, 2).reshape(-1, heads, 1, width)[self.place]
        sums = sums.unflatten(2, (slots, -1)).transpose(1, 2).reshape(-1, heads, 1)[self.place]
        if self.rows is None:
            merge_(output, log_sum_exp, found, sums)
        else:
            part, part_sums = output[self.rows], log_sum_exp[self.rows]
            merge_(part, part_sums, found, sums)
            output[self.rows], log_sum_exp[self.rows] = part, part_sums


def _levels(tree: Tree, prompt_of_row: Sequence[int], like: Tensor) -> list[_Level]:
    """Return the levels of the tree, on the device and with masks in the type of `like`."""
    found = []
    for depth in range(max(map(len, tree.paths))):
        edges = sorted({path[depth] for path in tree.paths if len(path) > depth})
        places = {edge: place for place, edge in enumerate(edges)}
        of_row = [places[path[depth]] if len(path := tree.paths[prompt]) > depth else None for prompt in prompt_of_row]
        found.append(_Level([tree.edges[edge] for edge in edges], of_row, like))
    return found
