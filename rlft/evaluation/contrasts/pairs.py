"""Compares the models of runs, two at a time, on the tasks that all of them were evaluated on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

from rlft.evaluation.comparison import Comparison, compare, obstacle_of
from rlft.types import EvaluationReport

H = TypeVar("H", bound=Hashable)
FAMILY = 0.05  # the chance that any of all differences is said to stand if there is none


@dataclass(frozen=True, slots=True)
class Pair:
    """The model of the run `second` minus that of `first`, at this `confidence`.

    `stands` says whether the difference is one by Holm's procedure over all pairs, with errors counted against it.
    `found` is `None` if no task was scored for both, and `obstacle` why it is no evidence, whatever it says.
    """

    first: str
    second: str
    found: Comparison | None
    confidence: float
    stands: bool
    obstacle: str | None


def compare_pairs(reports: Mapping[str, EvaluationReport], metric: str, *, family: float = FAMILY) -> list[Pair]:
    """Compare each two of the runs in a metric of all reports, which are on the same tasks.

    Holm's procedure (1979, Scandinavian Journal of Statistics 6): the surest of m differences at the two-sided level
    `family` / m, the next at `family` / (m - 1), and so on. Raises ValueError if a report lacks the metric.
    """
    pairs = list(combinations(reports, 2))

    def is_shown(pair: tuple[str, str], level: float) -> bool:
        found = compare(reports[pair[1]], reports[pair[0]], metric, confidence=1 - level)
        return found is not None and obstacle_of(found, "") is None and excludes_zero(found)

    levels = holm(pairs, is_shown, family)
    made = []
    for pair in pairs:
        confidence = 1 - levels.get(pair, family / max(1, len(pairs) - len(levels)))
        found = compare(reports[pair[1]], reports[pair[0]], metric, confidence=confidence)
        obstacle = "no task was scored for both" if found is None else obstacle_of(found, "the split")
        made.append(Pair(*pair, found, confidence, pair in levels, obstacle))
    return made


def holm(hypotheses: Collection[H], is_shown: Callable[[H, float], bool], family: float) -> dict[H, float]:
    """Return those of the hypotheses that are rejected, with the level of each.

    `is_shown` says whether one is rejected at a level; at a higher one it has to be, too.
    """
    left, shown = list(hypotheses), {}
    while left:
        level = family / len(left)
        found = {each: level for each in left if is_shown(each, level)}
        if not found:
            break
        shown |= found
        left = [each for each in left if each not in found]
    return shown


def excludes_zero(found: Comparison) -> bool:
    """Return whether a difference lies on one side of 0, with errors counted towards 0 and without."""
    return found.low_with_errors > 0 or found.high_with_errors < 0
