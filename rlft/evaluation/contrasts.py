"""Puts runs side by side: settings that differ, tasks that runs share, which model is better, and which setting.

Whether a setting is better depends on the spread between seeds, too, so it is asked of several runs each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import hypot
from statistics import fmean, stdev
from typing import Any, TypeVar

from scipy.special import stdtrit

from rlft.evaluation.comparison import FAMILY, Comparison, compare, holm, obstacle_of
from rlft.types import EvaluationReport

T = TypeVar("T")
# What the trained weights do not depend on: the name, what is told to MLflow and the registry, what is compared,
# and of which run of a setting a replay is.
_ASIDE = ("name", "seed", "tracking", "promotion", "controls", "suite", "baseline", "policy.keep", "replay.of")
ABSENT = "(not set)"
_SOLVED = "accuracy"


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings as {`a.b.c`: value}. Lists and empty mappings are values."""
    return dict(_leaves(settings, ""))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield from _leaves(each, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def differing(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return {setting: {run: value}} for each setting in which the runs are not all alike; `ABSENT` where one has none.

    `settings` maps each run to its config. A section that one run lacks differs as a whole.
    """
    leaves = {run: flat(each) for run, each in settings.items()}
    names = dict.fromkeys(name for each in leaves.values() for name in each)
    found = {name: {run: each.get(name, ABSENT) for run, each in leaves.items()} for name in names}
    return {
        name: values
        for name, values in found.items()
        if any(value != values[next(iter(values))] for value in values.values())
    }


def same_setting(settings: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return the runs in groups that differ in nothing which the weights depend on but `seed`, in their order."""
    groups: dict[str, list[str]] = {}
    for run, each in settings.items():
        kept = {name: value for name, value in flat(each).items() if not _is_aside(name)}
        groups.setdefault(repr(sorted(kept.items())), []).append(run)
    return list(groups.values())


def _is_aside(name: str) -> bool:
    return any(name == aside or name.startswith(f"{aside}.") for aside in _ASIDE)


def by_seed(runs: Iterable[str], seeds: Mapping[str, Hashable]) -> list[list[str]]:
    """Return the runs in groups of one seed each, in their order: a rerun of a seed tells little of another one."""
    groups: dict[Hashable, list[str]] = {}
    for run in runs:
        groups.setdefault(seeds[run], []).append(run)
    return list(groups.values())


@dataclass(frozen=True, slots=True)
class Asked:
    """What a task asks (`gates.task_hash`), and a hash of its right answer."""

    question: str
    answer: str


Tasks = Mapping[str, Asked]  # by id


def match(runs: Mapping[str, Tasks]) -> dict[str, dict[str, str]]:
    """Return for each run the tasks that all runs have, as {id in the first run: id in this one}.

    A task with the same id is the same if it asks the same. Another one is the same if question and answer are, and no
    other task of either run has both: the name of the environment enters the id of a task, so that another environment
    gives other ids to the same rows.
    """
    first = next(iter(runs.values()))
    found = {run: _in_other(first, tasks) for run, tasks in runs.items()}
    kept = [task for task in first if all(task in ids for ids in found.values())]
    return {run: {task: ids[task] for task in kept} for run, ids in found.items()}


def _in_other(ours: Tasks, theirs: Tasks) -> dict[str, str]:
    found = {task: task for task, asked in ours.items() if task in theirs and theirs[task].question == asked.question}
    known = _alone({task: asked for task, asked in theirs.items() if task not in found})
    left = _alone({task: asked for task, asked in ours.items() if task not in found})
    return found | {task: known[asked] for asked, task in left.items() if asked in known}


def _alone(tasks: Tasks) -> dict[Asked, str]:
    """Return {question and answer: id} of the tasks whose question and answer no other one has."""
    counts = Counter(tasks.values())
    return {asked: task for task, asked in tasks.items() if counts[asked] == 1}


def renamed(report: EvaluationReport, ids: Mapping[str, str]) -> EvaluationReport:
    """Return a report with these tasks alone, {new id: id in the report}, by their new ids.

    Its `metrics` stay those of all tasks.
    """

    def of(values: Mapping[str, T]) -> dict[str, T]:
        return {new: values[old] for new, old in ids.items() if old in values}

    return replace(
        report,
        per_task={metric: of(scores) for metric, scores in report.per_task.items()},
        groups=of(report.groups),
        errors=of(report.errors),
    )


def solved_by_one(solver: EvaluationReport, other: EvaluationReport) -> list[str]:
    """Return the tasks that `solver` solves more often than `other`, the largest difference first, then by id."""
    ours, theirs = solver.per_task.get(_SOLVED, {}), other.per_task.get(_SOLVED, {})
    gained = {task: ours[task] - theirs[task] for task in ours.keys() & theirs.keys() if ours[task] > theirs[task]}
    return sorted(gained, key=lambda task: (-gained[task], task))


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

    The levels are two-sided, and those of Holm's procedure (`holm`). Raises ValueError if a report lacks the metric.
    """
    pairs = list(combinations(reports, 2))

    def is_shown(pair: tuple[str, str], level: float) -> bool:
        found = compare(reports[pair[1]], reports[pair[0]], metric, confidence=1 - level)
        if found is None or obstacle_of(found, "") is not None:
            return False
        return found.low_with_errors > 0 or found.high_with_errors < 0

    levels = holm(pairs, is_shown, family)
    made = []
    for pair in pairs:
        confidence = 1 - levels.get(pair, family / max(1, len(pairs) - len(levels)))
        found = compare(reports[pair[1]], reports[pair[0]], metric, confidence=confidence)
        obstacle = "no task was scored for both" if found is None else obstacle_of(found, "the split")
        made.append(Pair(*pair, found, confidence, pair in levels, obstacle))
    return made


@dataclass(frozen=True, slots=True)
class SettingPair:
    """The setting `second` minus `first`, each the number of a group of runs.

    `difference` is that of the mean of the seeds' means, `low` and `high` its interval over seeds and tasks at
    `confidence`. `over_seeds` is Welch's interval, and `over_tasks` compares the mean scores of each task. Without
    either there is none: with too few seeds (`is_too_few`), if all have the same mean, or no task was scored for both.
    `stands` says that the interval excludes 0 by Holm's procedure over all pairs.
    """

    first: int
    second: int
    difference: float
    low: float | None
    high: float | None
    over_seeds: tuple[float, float] | None
    over_tasks: Comparison | None
    confidence: float
    stands: bool = False

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval over seeds and tasks lies on one side of 0, and the tasks can be evidence."""
        if self.low is None or self.high is None or self.over_tasks is None:
            return False
        return obstacle_of(self.over_tasks, "") is None and (self.low > 0 or self.high < 0)


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

    Seeds and tasks vary at once, so both their intervals enter (`over_both`): over tasks with errors counted
    against the difference, and over seeds Welch's t-interval (1947, Biometrika 34) of the seeds' means on these tasks.
    It takes them for draws from a normal distribution, which nobody can check by three of them. Raises ValueError if a
    report lacks the metric.
    """
    draws = [
        [average([reports[run] for run in reruns], metric) for reruns in by_seed(group, seeds)] for group in groups
    ]
    means = [[fmean(draw.per_task[metric].values()) for draw in each] for each in draws]
    pairs = list(combinations(range(len(groups)), 2))

    def measured(pair: tuple[int, int], level: float) -> SettingPair:
        theirs, ours = pair
        difference = fmean(means[ours]) - fmean(means[theirs])
        over_seeds = _welch(means[ours], means[theirs], level)
        ours_mean, theirs_mean = (average(draws[side], metric) for side in (ours, theirs))
        over_tasks = compare(ours_mean, theirs_mean, metric, confidence=1 - level)
        low = high = None
        if over_seeds is not None and over_tasks is not None:
            mean = over_tasks.difference.mean
            ends = (mean - over_tasks.low_with_errors, over_tasks.high_with_errors - mean)
            low, high = over_both(difference, over_seeds, ends)
        return SettingPair(*pair, difference, low, high, over_seeds, over_tasks, 1 - level)

    levels = holm(pairs, lambda pair, level: measured(pair, level).excludes_zero, family)
    left = family / max(1, len(pairs) - len(levels))
    return [replace(measured(pair, levels.get(pair, left)), stands=pair in levels) for pair in pairs]


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


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over runs; `low` and `high` are the ends of its 95 % interval, `None` where there is none."""

    mean: float
    low: float | None
    high: float | None


def gain_over_seeds(gains: Sequence[Comparison]) -> Mean:
    """Return the mean gain of runs of one setting, each after minus before, with its interval over seeds and tasks.

    The runs share their test tasks and often the start that they are measured beside, so their gains resemble each
    other in what these happen to be, and seeds alone do not show it. So two intervals enter (`over_both`): Student's
    over seeds, which takes gains for normal, and over tasks the mean end of the runs' own intervals, with errors
    counted against them. The latter is no closer than the end for the tasks' mean scores over seeds, as the deviation
    of a mean is at most the mean of the deviations. One run has no interval, nor have equal gains, which say nothing of
    how far others would spread.
    """
    values = [each.difference.mean for each in gains]
    mean = fmean(values)
    if len(set(values)) < 2:
        return Mean(mean, None, None)
    width = float(stdtrit(len(values) - 1, 0.975)) * stdev(values) / len(values) ** 0.5
    over_tasks = (
        mean - fmean(each.low_with_errors for each in gains),
        fmean(each.high_with_errors for each in gains) - mean,
    )
    return Mean(mean, *over_both(mean, (mean - width, mean + width), over_tasks))


def over_both(value: float, over_seeds: tuple[float, float], over_tasks: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of the interval of a mean over seeds and tasks, for which variances add up.

    `over_seeds` are the ends of the interval over seeds, `over_tasks` the distances below and above of the ends of that
    over tasks. An end is as far from the mean as the root of the sum of the squares of both distances.
    """
    below, above = hypot(value - over_seeds[0], over_tasks[0]), hypot(over_seeds[1] - value, over_tasks[1])
    return value - below, value + above
