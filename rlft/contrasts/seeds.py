"""Compares settings by several runs each: whether one is better depends on the spread between seeds, too."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf, isfinite
from statistics import fmean, stdev

from scipy import stats

from rlft.comparison import Comparison, compare
from rlft.contrasts.configs import by_seed
from rlft.contrasts.pairs import FAMILY, holm
from rlft.contrasts.seed_power import TaskSpread, seeds_needed, task_spread
from rlft.noninferiority import obstacle_of
from rlft.sweep import over_both
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
    `SPREADS`; `None` where a thousand would not. `least` is the smallest difference that runs without end find on these
    tasks. Where the tasks are too few to be evidence it is `None`, and `seeds` is empty.
    """

    first: int
    second: int
    difference: float
    low: float | None
    high: float | None
    confidence: float
    over_seeds: tuple[float, float] | None
    over_tasks: Comparison | None
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

    Seeds and tasks vary at once, so both their intervals enter (`rlft.sweep.over_both`): over tasks with errors counted
    against the difference, and over seeds Welch's t-interval (1947, Biometrika 34) of the seeds' means on these tasks.
    It takes them for draws from a normal distribution, which nobody can check by three of them. Raises ValueError if a
    report lacks the metric.
    """
    draws = [
        [average([reports[run] for run in reruns], metric) for reruns in by_seed(group, seeds)] for group in groups
    ]
    means = [[fmean(draw.per_task[metric].values()) for draw in group] for group in draws]
    averages = [average(group, metric) for group in draws]
    pairs = list(combinations(range(len(groups)), 2))

    def over_tasks(pair: tuple[int, int], level: float) -> Comparison | None:
        return compare(averages[pair[1]], averages[pair[0]], metric, confidence=1 - level)

    def is_shown(pair: tuple[int, int], level: float) -> bool:
        found = over_tasks(pair, level)
        ends = _ends(means[pair[1]], means[pair[0]], found, level)
        return ends is not None and obstacle_of(found, "") is None and (ends[0] > 0 or ends[1] < 0)

    levels = holm(pairs, is_shown, family)
    made = []
    for pair in pairs:
        level = levels.get(pair, family / max(1, len(pairs) - len(levels)))
        difference = fmean(means[pair[1]]) - fmean(means[pair[0]])
        found = over_tasks(pair, level)
        low, high = _ends(means[pair[1]], means[pair[0]], found, level) or (None, None)
        first, second = (draws[number] for number in pair)
        spread, strictest = task_spread(second, first, metric, found), family / len(pairs)
        least = inf if spread is None else spread.needed(inf, strictest)
        seeds = _seeds(difference, [means[number] for number in pair], strictest, spread)
        made.append(
            SettingPair(
                *pair,
                difference,
                low,
                high,
                1 - level,
                _welch(means[pair[1]], means[pair[0]], level),
                found,
                pair in levels,
                seeds,
                least if isfinite(least) else None,
            )
        )
    return made


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


def _ends(
    ours: Sequence[float], theirs: Sequence[float], over_tasks: Comparison | None, level: float
) -> tuple[float, float] | None:
    """Return the interval of the difference of means over seeds and tasks; `None` without either."""
    over_seeds = _welch(ours, theirs, level)
    if over_seeds is None or over_tasks is None:
        return None
    mean = over_tasks.difference.mean
    distances = mean - over_tasks.low_with_errors, over_tasks.high_with_errors - mean
    found = over_both(fmean(ours) - fmean(theirs), over_seeds, distances)
    return found.low, found.high


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
    difference, width = fmean(ours) - fmean(theirs), float(stats.t.ppf(1 - level / 2, freedom)) * sum(squares) ** 0.5
    return difference - width, difference + width


def is_too_few(one: int, other: int) -> bool:
    """Return whether so many seeds of two settings have no interval: one beside any, and two beside more.

    Two say hardly anything of how far more would spread: beside ten they would miss in 0.09 where they spread more.
    """
    return min(one, other) < 2 or (min(one, other) == 2 and one != other)


def _seeds(
    difference: float, means: Sequence[Sequence[float]], level: float, tasks: TaskSpread | None
) -> dict[float | None, int | None]:
    known = [each for each in means if len(each) > 1]
    freedom = sum(len(each) - 1 for each in known)
    spread = (sum((len(each) - 1) * stdev(each) ** 2 for each in known) / freedom) ** 0.5 if freedom else 0.0
    if tasks is None:
        return {}
    if spread > 0:
        return {None: seeds_needed(difference, spread, level=level, tasks=tasks)}
    return {each: seeds_needed(difference, each, level=level, tasks=tasks) for each in SPREADS}
