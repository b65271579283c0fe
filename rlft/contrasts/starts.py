"""Finds runs that score higher because they started higher, and not because they learnt more."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

from rlft.comparison import Comparison


def better_starts(gains: Mapping[str, Comparison]) -> list[tuple[str, str]]:
    """Return each (higher, lower) of which the first scores higher after training, gained less, and started higher.

    `gains` has for each run its trained policy minus the one that training started from.
    """
    return [
        (one, other)
        for one, other in permutations(gains, 2)
        if gains[one].after > gains[other].after
        and gains[one].before > gains[other].before
        and gains[one].difference.mean < gains[other].difference.mean
    ]
