"""A tree of token prefixes: sequences that begin alike are encoded once as far as they agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

STRIDE = 16
"""Sequences that part within a stretch of this many tokens part at its start: short edges cost more than they save."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Says where tokens that continue each other stand in a row: from `start` to `stop`.

    The tokens of all edges below follow, up to `end`. `depth` is the position of the first token in its sequences, and
    `count` says how many sequences go through the edge.
    """

    start: int
    stop: int
    end: int
    depth: int
    count: int


@dataclass(frozen=True, slots=True)
class Tree:
    """Holds sequences laid out in one row of `size` tokens, an edge before the edges below it.

    `edges` are in the order of the row; `paths` has the indices of the edges that each sequence goes through, and
    `places` [tokens] where each of its tokens stands in the row. `order` has the sequences in lexicographic order, and
    `shared` how many tokens each of these shares with the one before it: `size` is the sum of all lengths less these.
    """

    edges: tuple[Edge, ...]
    paths: tuple[tuple[int, ...], ...]
    places: tuple[np.ndarray, ...]
    order: tuple[int, ...]
    shared: tuple[int, ...]
    size: int

    @classmethod
    def of(
        cls,
        sequences: Sequence[Sequence[int] | np.ndarray],
        prompts: Sequence[int] | None = None,
        *,
        stride: int = STRIDE,
    ) -> Tree:
        """Return the tree of sequences of token ids.

        They part where they differ, rounded down to a multiple of `stride` or to the end of a prompt, of which
        `prompts` has the lengths in tokens.
        """
        arrays = [np.asarray(sequence, dtype=">u4") for sequence in sequences]
        ends = [len(array) for array in arrays] if prompts is None else prompts
        keys = [array.tobytes() for array in arrays]  # of big-endian numbers, so that they sort as the numbers do
        order = sorted(range(len(arrays)), key=keys.__getitem__)
        shared = [0] * min(1, len(order))
        for one, other in pairwise(order):
            most = min(len(arrays[one]), len(arrays[other]))
            equal = int(np.cumprod(arrays[one][:most] == arrays[other][:most]).sum())
            if keys[one] != keys[other]:
                equal = max(equal - equal % stride, *(end for end in (ends[one], ends[other], 0) if end <= equal))
            shared.append(equal)
        edges, paths = _lay_out([len(array) for array in arrays], order, shared)
        spans = [np.arange(edge.start, edge.stop) for edge in edges]
        places = [np.concatenate([spans[edge] for edge in path] or [np.arange(0)]) for path in paths]
        size = edges[-1].stop if edges else 0
        return cls(tuple(edges), tuple(paths), tuple(places), tuple(order), tuple(shared), size)

    def row(self, sequences: Iterable[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Return the token ids of the row, and the position of each in its sequences, both int64 [size]."""
        ids, positions = np.zeros(self.size, np.int64), np.zeros(self.size, np.int64)
        for sequence, places in zip(sequences, self.places, strict=True):
            ids[places], positions[places] = sequence, np.arange(len(places))
        return ids, positions


def _lay_out(
    lengths: Sequence[int], order: Sequence[int], shared: Sequence[int]
) -> tuple[list[Edge], list[tuple[int, ...]]]:
    """Return the edges of sequences that are in lexicographic order, and each sequence's path."""
    edges: list[Edge] = []
    paths: list[tuple[int, ...]] = [()] * len(order)

    def add(first: int, last: int, depth: int, path: tuple[int, ...]) -> None:
        """Add what sequences `order[first:last]` have beyond their `depth` tokens on the edges of `path`."""
        heads = [number for number in range(first, last) if number == first or shared[number] <= depth]
        branches = [range(start, stop) for start, stop in pairwise([*heads, last])]
        # Single sequences come last and from long to short, so that they are neighbours of similar lengths.
        branches.sort(key=lambda branch: -lengths[order[branch[0]]] if len(branch) == 1 else -np.inf)
        for branch in branches:
            stop = min((shared[number] for number in branch[1:]), default=lengths[order[branch[0]]])
            start, index, below = edges[-1].stop if edges else 0, len(edges), path
            if stop > depth:
                end = start + stop - depth
                edges.append(Edge(start, end, end, depth, len(branch)))
                below = (*path, index)
            if len(branch) == 1:
                paths[order[branch[0]]] = below
            else:
                add(branch.start, branch.stop, stop, below)
                edges[index] = replace(edges[index], end=edges[-1].stop)

    add(0, len(order), 0, ())
    return edges, paths
