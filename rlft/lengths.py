"""Says whether a policy's attempts are no longer than a rival's by more than a factor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from rlft.power import few_groups
from rlft.statistics import IMAGINED_OF_DIFFERENCE, Range, mean_interval
from rlft.types import EvaluationReport

_STEPS = 30  # of bisection: the bound is found to a millionth of the largest one
_LARGEST = 1000.0  # a ratio beyond which no upper bound is looked for


@dataclass(frozen=True, slots=True)
class LengthRatio:
    """The mean length of one policy's attempts (`ours`, in tokens) over that of another's (`theirs`).

    `high` is the upper bound of the ratio, `None` if it has none below a thousand; `holds` says whether it is at most
    the ratio that was asked for. `tasks` is how many are compared, `errors` how many rollouts have no length and count
    against ours, and `obstacle` why this is no evidence, `None` if it is.
    """

    ours: float
    theirs: float
    high: float | None
    holds: bool
    tasks: int
    errors: int
    obstacle: str | None

    @property
    def ratio(self) -> float:
        """Ours over theirs; infinite if theirs are empty."""
        return self.ours / self.theirs if self.theirs else float("inf")


def compare_lengths(
    ours: EvaluationReport, theirs: EvaluationReport, most: float, *, where: str, confidence: float = 0.95
) -> LengthRatio | None:
    """Return whether the mean length of ours is at most `most` times that of theirs, task by task.

    It is if the upper bound of the mean of `ours - most * theirs` is at most 0 (Fieller 1954, JRSS B 16), over groups
    of tasks, at this two-sided `confidence`. A rollout of ours without a score counts as the longest that either has,
    one of theirs as empty, so that errors never help. A length is that of the completion, with the results of tools.
    `where` names the tasks in sentences. `None` if no task has a length for either.

    The longest attempt of one of both stands in for the longest that is possible, so nothing tells of rare long
    attempts that did not occur. The limits of a rollout cannot take its place: they bound a turn, and a conversation by
    far more than is usual. Where a limit is 20 times the mean length no policy passes on 200 tasks, not even one that
    is no longer.
    """
    known = ours.lengths.keys() | theirs.lengths.keys()
    kept = sorted(known & (ours.lengths.keys() | ours.errors.keys()) & (theirs.lengths.keys() | theirs.errors.keys()))
    if not kept:
        return None
    longest = max(ours.longest, theirs.longest, *ours.lengths.values(), *theirs.lengths.values())
    a, b = _filled(ours, kept, longest), _filled(theirs, kept, 0.0)
    groups = {**theirs.groups, **ours.groups}

    def upper(ratio: float) -> float:
        differences = {task: a[task] - ratio * b[task] for task in kept}
        ends = Range(-ratio * longest, longest)
        return mean_interval(differences, groups, ends, imagined=IMAGINED_OF_DIFFERENCE, confidence=confidence).high

    interval = mean_interval(a, groups)
    return LengthRatio(
        ours=fmean(a.values()),
        theirs=fmean(b.values()),
        high=_bound(upper),
        holds=(obstacle := few_groups(where, interval.groups, interval.effective_groups)) is None and upper(most) <= 0,
        tasks=len(kept),
        errors=sum(report.errors.get(task, 0) for report in (ours, theirs) for task in kept),
        obstacle=obstacle,
    )


def _filled(report: EvaluationReport, tasks: list[str], length: float) -> dict[str, float]:
    """Return {task id: mean length}, in which rollouts without a score have this one."""
    shares = {task: min(1.0, report.errors.get(task, 0) / report.num_samples) for task in tasks}
    return {task: (1 - shares[task]) * report.lengths.get(task, length) + shares[task] * length for task in tasks}


def _bound(upper: Callable[[float], float]) -> float | None:
    """Return the smallest ratio whose `upper` bound is at most 0."""
    low, high = 0.0, _LARGEST
    if upper(high) > 0:
        return None
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if upper(middle) <= 0 else (middle, high)
    return high
