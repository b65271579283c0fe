"""Compares two policies by their reports on the same tasks, and says what their errors could hide.

The same rule holds for the gate, for the status of a run, for the choice of the best round and for controls: tasks that
have no score for either policy say nothing of their difference and are left out of both; beyond that a verdict has to
hold with every error of the policy that is to be better counted as the lowest score, and every error of its rival as
the highest. Rollouts that fail are no random sample: hard and long ones fail first.

That a policy is worse in a slice (`compare_slices`) has to be shown as well: there the errors count the other way
round, and without that the slice blocks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal, TypeVar

from rlft.evaluation.power import few_groups
from rlft.evaluation.statistics import SHARE, Range, common_tasks, paired_difference
from rlft.types import EvaluationReport, Interval

SHARES = ("accuracy", "avg_at_k", "pass_at_k", "maj_at_k")
_PARTS = "rewards/"  # how the metric of a part begins


@dataclass(frozen=True, slots=True)
class Comparison:
    """One policy minus another, task by task.

    `difference` is over the tasks with a score for both, whose means are `before` (the other policy) and `after`.
    `errors` counts the rollouts of both without a score, on tasks that at least one of them has a score for, and
    `low_with_errors` is the lower bound that remains if they are counted against the policy, `high_with_errors` the
    upper one if they are counted in its favour: neither lies within those of `difference`. `without_score` are the
    tasks with no score for either. `declared` says whether the range of the scores is known.
    """

    difference: Interval
    before: float
    after: float
    low_with_errors: float
    high_with_errors: float
    errors: int
    without_score: tuple[str, ...]
    declared: bool

    def as_json(self) -> dict[str, float]:
        """Return both means and the difference; `low` and `high` are its ends with errors counted either way."""
        difference = self.difference
        found = {"before": self.before, "after": self.after, "mean": difference.mean, "errors": self.errors}
        ends = {"low": self.low_with_errors, "high": self.high_with_errors}
        return found | ends | {"tasks": difference.count, "groups": difference.groups}

    def exceeds(self, minimum: float) -> bool:
        """Return whether the lower bound lies above `minimum`, with errors counted against the policy and without."""
        return self.low_with_errors > minimum


def range_of(metric: str, *declared: Mapping[str, tuple[float, float]]) -> Range | None:
    """Return the range of a metric's scores, which holds that of each report; `None` if one of them declares none.

    `declared` are the `ranges` of the reports. Shares need no declaration.
    """
    if metric in SHARES:
        return SHARE
    if not declared or any(metric not in ranges for ranges in declared):
        return None
    lows, highs = zip(*(ranges[metric] for ranges in declared), strict=True)
    return Range(min(lows), max(highs))


def ends_of(metric: str, *reports: EvaluationReport) -> Range:
    """Return the declared range of a score, else the lowest and the highest that occurred in these reports.

    Errors count as these.
    """
    return range_of(metric, *(report.ranges for report in reports)) or _observed(metric, *reports)


def compare(
    ours: EvaluationReport,
    theirs: EvaluationReport,
    metric: str,
    *,
    confidence: float = 0.95,
    without: Collection[str] = (),
) -> Comparison | None:
    """Return `ours` minus `theirs` in a metric of both; `None` if no task was scored for both.

    `confidence` is that of the intervals; the tasks with the ids in `without` are left out. Raises ValueError if a
    report lacks the metric.
    """
    if without:
        sides = (*ours.per_task.values(), ours.errors, *theirs.per_task.values(), theirs.errors)
        left = {task for found in sides for task in found} - set(without)
        ours, theirs = within(ours, left), within(theirs, left)
    for report in (ours, theirs):
        if metric not in report.per_task:
            known = ", ".join(sorted(report.per_task)) or "none"
            raise ValueError(f"no scores for {metric!r} in the report of policy {report.policy[:12]} (it has: {known})")
    a, b = common_tasks(ours.per_task[metric], theirs.per_task[metric])
    if not a:
        return None
    groups = {**theirs.groups, **ours.groups}
    known = range_of(metric, ours.ranges, theirs.ranges)
    ends = ends_of(metric, ours, theirs)
    scored = [set(each.per_task[metric]) for each in (ours, theirs)]
    failed = [_errors(each, metric).keys() for each in (ours, theirs)]
    unscored = tuple(sorted((failed[0] & failed[1]) - (scored[0] | scored[1])))
    kept = sorted((scored[0] | failed[0]) & (scored[1] | failed[1]) - set(unscored))

    def with_errors(our_score: float, their_score: float) -> Interval:
        """Return the difference in which the errors of ours, and those of theirs, count as these scores."""
        one, other = completed(ours, metric, our_score), completed(theirs, metric, their_score)
        a, b = ({task: side[task] for task in kept} for side in (one, other))
        return paired_difference(a, b, groups, ends, confidence=confidence)

    difference = paired_difference(a, b, groups, ends, confidence=confidence)
    return Comparison(
        difference=difference,
        before=fmean(b.values()),
        after=fmean(a.values()),
        low_with_errors=min(with_errors(ends.low, ends.high).low, difference.low),
        high_with_errors=max(with_errors(ends.high, ends.low).high, difference.high),
        errors=sum(report.errors.get(task, 0) for report in (ours, theirs) for task in kept),
        without_score=unscored,
        declared=known is not None,
    )


def within(report: EvaluationReport, tasks: Collection[str]) -> EvaluationReport:
    """Return a report with the scores and the errors of these tasks alone; its `metrics` stay those of all."""
    scores = {
        metric: {task: score for task, score in found.items() if task in tasks}
        for metric, found in report.per_task.items()
    }
    errors = {task: count for task, count in report.errors.items() if task in tasks}
    return replace(report, per_task=scores, errors=errors)


def completed(report: EvaluationReport, metric: str, score: float) -> dict[str, float]:
    """Return {task id: mean over its samples}, in which each rollout without a score counts as `score`."""
    means = dict(report.per_task[metric])
    for task, errors in _errors(report, metric).items():
        share = min(1.0, errors / report.num_samples)
        means[task] = (1 - share) * means.get(task, score) + share * score
    return means


def guarded_mean(report: EvaluationReport, metric: str, bound: Literal["low", "high"] = "low") -> float | None:
    """Return the mean over tasks in which errors count as the lowest (or the highest) score; `None` without scores."""
    scores = report.per_task.get(metric)
    if not scores:
        return None
    ends = ends_of(metric, report)
    return fmean(completed(report, metric, getattr(ends, bound)).values())


def is_better(ours: EvaluationReport, theirs: EvaluationReport | None, metric: str) -> bool:
    """Return whether the mean of `ours` is higher, where errors of both count as the lowest score that either has.

    Where the means are equal those of the reward decide: while no answer is right, accuracy tells nothing apart.
    A report without scores is never better, and never as good as one with some; the first one, before which there is
    none (`theirs` is `None`), is better if it has some.
    """
    if theirs is None or not ours.per_task.get(metric) or not theirs.per_task.get(metric):
        return bool(ours.per_task.get(metric))
    for name in (metric, "reward"):
        if ours.per_task.get(name) and theirs.per_task.get(name):
            low = ends_of(name, ours, theirs).low
            our_mean, their_mean = (fmean(completed(side, name, low).values()) for side in (ours, theirs))
            if our_mean != their_mean:
                return our_mean > their_mean
    return False


def _errors(report: EvaluationReport, metric: str) -> dict[str, int]:
    """Return the errors that could hide scores in a metric: a part of one of several environments is of its tasks."""
    if not report.environments or not metric.startswith(_PARTS):
        return report.errors
    member = metric.removeprefix(_PARTS).partition("/")[0]
    return {task: errors for task, errors in report.errors.items() if report.environments.get(task) == member}


def _observed(metric: str, *reports: EvaluationReport) -> Range:
    """Return the lowest and the highest score of a rollout; of a task where a report does not hold those."""
    values = [value for report in reports for value in report.per_task[metric].values()]
    values += [value for report in reports for value in report.extremes.get(metric, ())]
    return Range(min(values), max(values))


FAMILY = 0.05  # the chance that any of all differences, or of all slices, is said to stand if there is none


H = TypeVar("H", bound=Hashable)


def holm(hypotheses: Collection[H], is_shown: Callable[[H, float], bool], family: float) -> dict[H, float]:
    """Return those of the hypotheses that are rejected, with the level of each.

    Holm's procedure (1979, Scandinavian Journal of Statistics 6): the surest of m at the level `family` / m, the next
    at `family` / (m - 1), and so on, until one is not. `is_shown` says whether one is rejected at a level; at a higher
    one it has to be, too.
    """
    left, shown = list(hypotheses), dict[H, float]()
    while left:
        level = family / len(left)
        found = {each: level for each in left if is_shown(each, level)}
        if not found:
            break
        shown |= found
        left = [each for each in left if each not in found]
    return shown


@dataclass(frozen=True, slots=True)
class Slice:
    """What is known of one slice of the tasks: whether a policy `is_worse` there than its rival.

    `difference` is at the level at which the slice was tested, over what was scored; `None` if no task was scored for
    both. `errors` counts the attempts without a score.
    """

    name: str
    is_worse: bool
    difference: Interval | None
    errors: int = 0


def obstacle_of(found: Comparison, where: str) -> str | None:
    """Return why a comparison on `where`, a split or a slice, is no evidence, whatever it says; `None` if it is."""
    if few := few_groups(where, found.difference.groups, found.difference.effective_groups):
        return few
    if not found.declared and found.difference.low == found.difference.high:
        return "every task has the same difference, and scores without a declared range have no interval then"
    return None


def compare_slices(
    ours: EvaluationReport,
    theirs: EvaluationReport,
    metric: str,
    slices: Mapping[str, Collection[str]],
    *,
    family: float = FAMILY,
    without: Collection[str] = (),
) -> list[Slice]:
    """Say of each slice, {name: ids of its tasks}, whether `ours` is worse there. Slices may overlap.

    It is if the interval of ours minus theirs lies below 0, also with all errors counted in favour of ours, by Holm's
    procedure over all slices that are tested, one-sided, so that with a chance of at most `family` any of them is worse
    although none is. Errors at random lower the bound with errors counted against ours, which shows no loss: of models
    that lose nothing it blocked 0.15 of decisions with 10 % of errors, and 0.89 with 4 attempts and 10 % on either
    side. Slices in which nothing can be evidence (`obstacle_of`) are not tested, and do not count among them. The tasks
    of `without` are left out. Raises ValueError if a report lacks the metric.
    """

    def asked(name: str, level: float) -> Comparison | None:
        ids = set(slices[name]) - set(without)
        return compare(within(ours, ids), within(theirs, ids), metric, confidence=1 - 2 * level)

    def is_worse(name: str, level: float) -> bool:
        found = asked(name, level)
        return found is not None and found.high_with_errors < 0

    alone = {name: asked(name, family) for name in slices}
    tested = [name for name, found in alone.items() if found is not None and obstacle_of(found, name) is None]
    worse = holm(tested, is_worse, family)
    last = family / max(len(tested) - len(worse), 1)

    def judged(name: str) -> Slice:
        found = asked(name, worse.get(name, last))
        return Slice(name, name in worse, found and found.difference, found.errors if found else 0)

    return [judged(name) for name in slices]
