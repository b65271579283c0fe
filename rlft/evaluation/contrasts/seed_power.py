"""Says how many runs of two settings would find a difference over seeds and tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincinv, ndtr, stdtrit

from rlft.evaluation.comparison import Comparison, ends_of, obstacle_of
from rlft.evaluation.power import lower_bounds
from rlft.evaluation.statistics import Range
from rlft.types import EvaluationReport

POWER = 0.8
MOST_SEEDS = 1000
_POINTS = 400  # of the distribution of a measured spread, over which the power is averaged
_DIFFERENCES = 201  # between which what is needed is interpolated; the error is below 0.0002 of the range


@dataclass(frozen=True, slots=True)
class TaskSpread:
    """What makes the interval over tasks of the difference between two settings.

    `effective` is how many groups of tasks of equal size there are, `ends` the range of scores. The variance between
    groups is `apart` with runs without end, and `noise` / n more with n runs of each setting. `errors` is by how much
    attempts without a score move the bound towards 0, in the metric.
    """

    effective: float
    ends: Range
    apart: float
    noise: float
    errors: float

    def needed(self, runs: float, level: float, over_seeds: ArrayLike = 0.0) -> NDArray[np.float64]:
        """Return the least measured difference that is found with so many runs; infinity where none is.

        It is found if the root of the sum of the squares of two distances is below it: `over_seeds` [...], of an end
        over seeds, and that of the end over tasks.
        """
        count, width = int(self.effective), self.ends.high - self.ends.low
        if count < 2:
            return np.full(np.shape(over_seeds), inf)
        measured = np.linspace(0, width, _DIFFERENCES)
        spreads = np.sqrt(np.clip(self.apart + self.noise / runs, 0, width**2 - measured**2))
        low = lower_bounds(measured, spreads, count, self.ends, confidence=1 - level) - self.errors
        room = np.maximum.accumulate(measured**2 - (measured - low) ** 2)
        return np.interp(np.square(over_seeds), room, measured, right=inf)


def task_spread(
    ours: Sequence[EvaluationReport], theirs: Sequence[EvaluationReport], metric: str, found: Comparison | None
) -> TaskSpread | None:
    """Return the spread over tasks of two settings by their runs; `None` if `found`, over tasks, can be no evidence.

    What several runs of one setting differ by at a task, beyond the mean of each run, is noise that more runs average
    out; a setting with one run is taken to have as much as the other. With one run each all differences between tasks
    are taken for noise, as if all tasks gained alike.
    """
    if found is None or obstacle_of(found, "") is not None:
        return None
    common = set.intersection(*(set(report.per_task[metric]) for report in (*ours, *theirs)))
    if not common:
        return None
    one, other = (np.array([_by_group(report, metric, common) for report in side]) for side in (ours, theirs))
    variance = float((one.mean(0) - other.mean(0)).var())
    known = [_noise(side) for side in (one, other) if len(side) > 1]
    if known:
        noises = [_noise(side) if len(side) > 1 else known[0] for side in (one, other)]
        apart = max(0.0, variance - noises[0] / len(one) - noises[1] / len(other))
    else:
        noises, apart = [variance, 0.0], 0.0
    low, high = found.difference.low - found.low_with_errors, found.high_with_errors - found.difference.high
    ends = ends_of(metric, *ours, *theirs)
    errors = low if found.difference.mean > 0 else high
    return TaskSpread(found.difference.effective_groups, ends, apart, sum(noises), errors)


def seeds_needed(
    difference: float, spread: float, *, power: float = POWER, level: float = 0.05, tasks: TaskSpread | None = None
) -> int | None:
    """Return how many runs of each of two settings find a difference with this power; `None` if `MOST_SEEDS` do not.

    `spread` is the standard deviation between seeds, of both settings. It is found if the interval over seeds, that
    of the t-test of two means with 2n - 2 degrees of freedom, and over `tasks`, where they are given, excludes 0 at
    this `level` (`TaskSpread.needed`).
    The power is that of means that are normal, whose measured spread follows the chi distribution.
    """
    if difference == 0:
        return None
    few, most = 1, MOST_SEEDS
    if _power(abs(difference), spread, most, level, tasks) < power:
        return None
    while most - few > 1:
        middle = (few + most) // 2
        few, most = (few, middle) if _power(abs(difference), spread, middle, level, tasks) >= power else (middle, most)
    return most


def _power(difference: float, spread: float, runs: int, level: float, tasks: TaskSpread | None) -> float:
    freedom, error = 2 * runs - 2, max(spread, 1e-9 * difference) * sqrt(2 / runs)
    chances = (np.arange(_POINTS) + 0.5) / _POINTS
    measured = error * np.sqrt(2 * gammaincinv(freedom / 2, chances) / freedom)
    bar = stdtrit(freedom, 1 - level / 2) * measured
    if tasks is not None:
        bar = tasks.needed(runs, level, bar)
    return float(ndtr((difference - bar) / error).mean())


def _noise(runs: NDArray[np.float64]) -> float:
    """Return the variance of scores [run, group] between runs, without what the means of runs differ by."""
    return float((runs - runs.mean(-1, keepdims=True)).var(0, ddof=1).mean())


def _by_group(report: EvaluationReport, metric: str, tasks: set[str]) -> list[float]:
    """Return the mean score of each group of these tasks, in the order of their names."""
    scores: Mapping[str, float] = report.per_task[metric]
    found: dict[str, list[float]] = defaultdict(list)
    for task in tasks:
        found[report.groups.get(task, f"\0{task}")].append(scores[task])
    return [float(np.mean(found[group])) for group in sorted(found)]
