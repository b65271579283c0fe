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
            equal = _equal(arrays[one], arrays[other])
            if keys[one] != keys[other]:
                equal = max(equal - equal % stride, *(end for end in (ends[one], ends[other], 0) if end <= equal))
            shared.append(equal)
        growth = _Growth([len(array) for array in arrays], order, shared)
        growth.add(0, len(order), 0, ())
        edges = tuple(growth.edges)
        spans = [np.arange(edge.start, edge.stop) for edge in edges]
        places = [np.concatenate([spans[edge] for edge in path] or [np.arange(0)]) for path in growth.paths]
        return cls(edges, tuple(growth.paths), tuple(places), tuple(order), tuple(shared), growth.size)

    def row(self, sequences: Iterable[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Return the token ids of the row, and the position of each in its sequences, both int64 [size]."""
        ids, positions = np.zeros(self.size, np.int64), np.zeros(self.size, np.int64)
        for sequence, places in zip(sequences, self.places, strict=True):
            ids[places], positions[places] = sequence, np.arange(len(places))
        return ids, positions


def _equal(one: np.ndarray, other: np.ndarray) -> int:
    """Return how many tokens two sequences have in common at their beginning."""
    most = min(len(one), len(other))
    differs = np.flatnonzero(one[:most] != other[:most])
    return int(differs[0]) if len(differs) else most


class _Growth:
    """Lays out sequences that are in lexicographic order, and notes the edges and each sequence's path."""

    def __init__(self, lengths: Sequence[int], order: Sequence[int], shared: Sequence[int]) -> None:
        self._lengths, self._order, self._shared = lengths, order, shared
        self.edges: list[Edge] = []
        self.paths: list[tuple[int, ...]] = [()] * len(order)
        self.size = 0

    def add(self, first: int, last: int, depth: int, path: tuple[int, ...]) -> None:
        """Add what sequences `order[first:last]` have beyond their `depth` tokens on the edges of `path`."""
        heads = [number for number in range(first, last) if number == first or self._shared[number] <= depth]
        branches = [range(start, stop) for start, stop in pairwise([*heads, last])]
        # Single sequences come last and from long to short, so that they are neighbours of similar lengths.
        branches.sort(key=lambda branch: -self._length(branch[0]) if len(branch) == 1 else -np.inf)
        for branch in branches:
            stop = min((self._shared[number] for number in branch[1:]), default=self._length(branch[0]))
            start, index, below = self.size, len(self.edges), path
            if stop > depth:
                self.size += stop - depth
                self.edges.append(Edge(start, self.size, self.size, depth, len(branch)))
                below = (*path, index)
            if len(branch) == 1:
                self.paths[self._order[branch[0]]] = below
            else:
                self.add(branch.start, branch.stop, stop, below)
                self.edges[index] = replace(self.edges[index], end=self.size)

    def _length(self, number: int) -> int:
        return self._lengths[self._order[number]]
