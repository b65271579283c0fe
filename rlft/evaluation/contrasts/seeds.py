"""Compares settings by several runs each: whether one is better depends on the spread between seeds, too."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf, isfinite
from statistics import fmean, stdev
from typing import NamedTuple

from scipy.special import stdtrit

from rlft.evaluation.comparison import Comparison, compare, obstacle_of
from rlft.evaluation.contrasts.configs import by_seed
from rlft.evaluation.contrasts.pairs import FAMILY, holm
from rlft.evaluation.contrasts.seed_power import TaskSpread, seeds_needed, task_spread
from rlft.evaluation.sweep import over_both
from rlft.types import EvaluationReport

SPREADS = (0.02, 0.05, 0.1, 0.2)  # between seeds, in the metric, where it is not known


@dataclass(frozen=True, slots=True)
class SettingPair:
    """The setting `second` minus `first`, each the number of a group of runs.

    `difference` is that of the mean of the seeds' means, `low` and `high` its interval over seeds and tasks at
    `confidence`. `over_seeds` is Welch's interval, and `over_tasks` compares the mean scores of each task. Without
    either there is none: with too few seeds (`is_too_few`), if all have the same mean, or no task was scored for both.
    `stands` says that the interval excludes 0 by Holm's procedure over all pairs.
    `seeds` is how many runs of each setting would find this difference four times out of five, at the level of the
    family divided by the number of pairs: by the spread that the runs have, under the key `None`, or for each of
    `SPREADS`; `None` where a thousand would not. `least` is the smallest difference that runs without end
    find on these tasks. Where the tasks are too few to be evidence it is `None`, and `seeds` is empty.
    """

    first: int
    second: int
    difference: float
    low: float | None
    high: float | None
    over_seeds: tuple[float, float] | None
    over_tasks: Comparison | None
    confidence: float
    stands: bool
    seeds: dict[float | None, int | None]
    least: float | None


def compare_settings(
    groups: Sequence[Sequence[str]],
    reports: Mapping[str, EvaluationReport],
    metric: str,
    seeds: Mapping[str, Hashable],
    *,
    family: float = FAMILY,
) -> list[SettingPair]:
    """Compare each two of the groups of runs, which differ in their seed alone within a group.

    `seeds` has the seed of each run. Runs of one setting and one seed count as one with their mean scores: a rerun of a
    seed repeats it, but for what a GPU rounds in another order, and shows nothing of how far seeds spread.

    Seeds and tasks vary at once, so both their intervals enter (`sweep.over_both`): over tasks with errors counted
    against the difference, and over seeds Welch's t-interval (1947, Biometrika 34) of the seeds' means on these tasks.
    It takes them for draws from a normal distribution, which nobody can check by three of them. Raises ValueError if a
    report lacks the metric.
    """
    settings = [
        _Setting([average([reports[run] for run in reruns], metric) for reruns in by_seed(group, seeds)], metric)
        for group in groups
    ]
    pairs = list(combinations(range(len(groups)), 2))

    def measured(pair: tuple[int, int], level: float) -> _Measured:
        return _measure(settings[pair[1]], settings[pair[0]], level)

    levels = holm(pairs, lambda pair, level: measured(pair, level).excludes_zero, family)
    left = family / max(1, len(pairs) - len(levels))
    made = []
    for pair in pairs:
        level, strictest = levels.get(pair, left), family / len(pairs)
        found = measured(pair, level)
        ours, theirs = settings[pair[1]], settings[pair[0]]
        tasks = task_spread(ours.draws, theirs.draws, metric, found.over_tasks)
        least = inf if tasks is None else float(tasks.needed(inf, strictest))
        count = _seeds(found.difference, (ours, theirs), strictest, tasks)
        known = least if isfinite(least) else None
        made.append(SettingPair(*pair, *found, 1 - level, pair in levels, count, known))
    return made


class _Setting:
    """A setting by its draws, the reports of its seeds: their `means`, and their `average`."""

    def __init__(self, draws: Sequence[EvaluationReport], metric: str) -> None:
        self.draws, self.metric = draws, metric
        self.means = [fmean(draw.per_task[metric].values()) for draw in draws]
        self.average = average(draws, metric)


class _Measured(NamedTuple):
    """The difference of two settings with its intervals, as in `SettingPair`."""

    difference: float
    low: float | None
    high: float | None
    over_seeds: tuple[float, float] | None
    over_tasks: Comparison | None

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval over seeds and tasks lies on one side of 0, and the tasks can be evidence."""
        if self.low is None or self.high is None or self.over_tasks is None:
            return False
        return obstacle_of(self.over_tasks, "") is None and (self.low > 0 or self.high < 0)


def _measure(ours: _Setting, theirs: _Setting, level: float) -> _Measured:
    difference = fmean(ours.means) - fmean(theirs.means)
    over_seeds = _welch(ours.means, theirs.means, level)
    over_tasks = compare(ours.average, theirs.average, ours.metric, confidence=1 - level)
    if over_seeds is None or over_tasks is None:
        return _Measured(difference, None, None, over_seeds, over_tasks)
    mean = over_tasks.difference.mean
    both = over_both(difference, over_seeds, (mean - over_tasks.low_with_errors, over_tasks.high_with_errors - mean))
    return _Measured(difference, both.low, both.high, over_seeds, over_tasks)


def average(reports: Sequence[EvaluationReport], metric: str) -> EvaluationReport:
    """Return a report with each task's mean score over several reports, of this metric alone; errors add up."""
    tasks = list(dict.fromkeys(task for report in reports for task in report.per_task[metric]))
    scores = {
        task: fmean(report.per_task[metric][task] for report in reports if task in report.per_task[metric])
        for task in tasks
    }
    failed = dict.fromkeys(task for report in reports for task in report.errors)
    return replace(
        reports[0],
        num_samples=sum(report.num_samples for report in reports),
        metrics={},
        per_task={metric: scores},
        groups={task: group for report in reports for task, group in report.groups.items()},
        errors={task: sum(report.errors.get(task, 0) for report in reports) for task in failed},
    )


def _welch(ours: Sequence[float], theirs: Sequence[float], level: float) -> tuple[float, float] | None:
    """Return the interval of the difference of means; `None` without any spread, or with too few (`is_too_few`).

    With few draws beside many Welch's degrees of freedom are too high where the few happen to lie close together, so
    there are no more than with the smaller number on both sides. In simulations at 0.05 the interval misses 0 in 0.02
    to 0.06 for draws that spread alike, and in at most 0.07 where the smaller side spreads more.
    """
    if is_too_few(len(ours), len(theirs)) or stdev(ours) + stdev(theirs) == 0:
        return None
    squares = [stdev(side) ** 2 / len(side) for side in (ours, theirs)]
    parts = sum(square**2 / (len(side) - 1) for square, side in zip(squares, (ours, theirs), strict=True))
    freedom = min(sum(squares) ** 2 / parts, 2 * min(len(ours), len(theirs)) - 2)
    difference, width = fmean(ours) - fmean(theirs), float(stdtrit(freedom, 1 - level / 2)) * sum(squares) ** 0.5
    return difference - width, difference + width


def is_too_few(one: int, other: int) -> bool:
    """Return whether so many seeds of two settings have no interval: one beside any, and two beside more.

    Two say hardly anything of how far more would spread: beside ten they would miss in 0.09 where they spread more.
    """
    return min(one, other) < 2 or (min(one, other) == 2 and one != other)


def _seeds(
    difference: float, settings: Sequence[_Setting], level: float, tasks: TaskSpread | None
) -> dict[float | None, int | None]:
    """Return `seeds` of a pair."""
    known = [setting.means for setting in settings if len(setting.means) > 1]
    freedom = sum(len(each) - 1 for each in known)
    spread = (sum((len(each) - 1) * stdev(each) ** 2 for each in known) / freedom) ** 0.5 if freedom else 0.0

    def needed(spread: float) -> int | None:
        return seeds_needed(difference, spread, level=level, tasks=tasks)

    if tasks is None:
        return {}
    return {None: needed(spread)} if spread else {each: needed(each) for each in SPREADS}
