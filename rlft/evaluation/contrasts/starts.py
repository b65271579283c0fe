"""Finds runs that score higher because they started higher, and not because they learnt more."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

from rlft.evaluation.comparison import Comparison
from rlft.evaluation.contrasts.pairs import compare_pairs
from rlft.types import EvaluationReport


def better_starts(
    gains: Mapping[str, Comparison], starts: Mapping[str, EvaluationReport], metric: str
) -> list[tuple[str, str]]:
    """Return each (higher, lower) of which the first scores higher after training, gained less, and started higher.

    `gains` has for each run its trained policy minus the one that training started from, whose report is in `starts`. A
    start is higher if the difference of both stands by Holm's procedure over all pairs of runs (`compare_pairs`), as
    runs of one recipe score higher, gain less and started higher by chance in most comparisons of six.
    """
    stand = {
        (pair.second, pair.first) if pair.found.difference.mean > 0 else (pair.first, pair.second)
        for pair in compare_pairs({run: starts[run] for run in gains}, metric)
        if pair.stands and pair.found is not None
    }
    return [
        (one, other)
        for one, other in permutations(gains, 2)
        if (one, other) in stand
        and gains[one].after > gains[other].after
        and gains[one].difference.mean < gains[other].difference.mean
    ]
