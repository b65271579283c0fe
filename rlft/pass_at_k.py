"""pass@k of two policies: does training solve more tasks in several attempts, or sharpen the first one?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import comb
from statistics import fmean

from rlft.statistics import SHARE, mean_interval, paired_difference
from rlft.types import Effect, EvaluationReport, Interval

FURTHER = 8  # times as many attempts, with which the start may close the gap: three doublings


@dataclass(frozen=True, slots=True)
class PassAtK:
    """The pass@k of two policies over the same tasks, for k = 1 to n, the number of attempts at each.

    `start` and `trained` are means over tasks, with an attempt without a score counted as unsolved. `at_one` and `at_n`
    are trained minus start at k = 1 and k = n, with 95 % intervals over groups. Their lower end counts such attempts as
    unsolved for the trained policy and as solved for the other, their upper end the other way round. `start_high` and
    `trained_low` are ends of the 95 % intervals of either policy's own pass@n, with such attempts counted as solved for
    the start and as unsolved for the trained policy.
    """

    start: tuple[float, ...]
    trained: tuple[float, ...]
    at_one: Interval
    at_n: Interval
    start_high: float
    trained_low: float
    errors: int = 0

    @property
    def effect(self) -> Effect:
        """What the intervals say: `widened`, `ahead`, `sharpened`, `lost` or `open`.

        With an interval at n above zero it is `widened` if the trained policy solves more in n attempts than the start
        can in `FURTHER` times as many, and else `ahead`: n attempts do not show all that a model solves.
        """
        if self.at_n.low > 0:
            return "widened" if self.trained_low > most_with_more(self.start_high) else "ahead"
        if self.at_n.high < 0:
            return "lost"
        return "sharpened" if self.at_one.low > 0 else "open"


def pass_at_k(n: int, solved: int, k: int) -> float:
    """Return the chance that of k attempts at least one is solved, from `solved` of n: 1 - C(n - solved, k) / C(n, k).

    It is the unbiased estimate of Chen et al. 2021 (arXiv:2107.03374, eq. 1). Raises ValueError unless
    0 <= solved <= n and 1 <= k <= n.
    """
    if not (0 <= solved <= n and 1 <= k <= n):
        raise ValueError(f"pass@{k} cannot be estimated from {solved} solved attempts of {n}")
    return 1 - comb(n - solved, k) / comb(n, k)


def most_with_more(share: float, times: int = FURTHER) -> float:
    """Return the most that pass@(times * n) can be if pass@n is `share`, from 0 to 1: 1 - (1 - share)^times.

    A task that one attempt solves with the chance p is left unsolved by n attempts with u = (1 - p)^n, and by `times`
    as many with u^times. As that power is convex, its mean over tasks is at least the power of the mean (Jensen), which
    is 1 - pass@n. Tasks that are all equally hard reach the bound, and others stay below.
    """
    return 1 - (1 - share) ** times


def compare_pass_at_k(start: EvaluationReport, trained: EvaluationReport) -> PassAtK | None:
    """Return the curves of two reports on the same tasks with as many attempts; `None` if all attempts failed.

    Raises ValueError if the numbers of attempts differ.
    """
    n = start.num_samples
    if trained.num_samples != n:
        raise ValueError(f"{n} attempts at a task cannot be compared with {trained.num_samples}")
    if not start.per_task.get("accuracy") or not trained.per_task.get("accuracy"):
        return None
    groups = {**start.groups, **trained.groups}

    def difference(k: int) -> Interval:
        def of(counts: Mapping[str, int]) -> dict[str, float]:
            return {task: pass_at_k(n, counts[task], k) for task in sorted(groups)}

        (least, most), (rival_least, rival_most) = _solved(trained, groups), _solved(start, groups)
        found = paired_difference(of(least), of(rival_least), groups, SHARE)
        low = paired_difference(of(least), of(rival_most), groups, SHARE).low
        high = paired_difference(of(most), of(rival_least), groups, SHARE).high
        return replace(found, low=min(low, found.low), high=max(high, found.high))

    def alone(counts: Mapping[str, int]) -> Interval:
        return mean_interval({task: pass_at_k(n, count, n) for task, count in counts.items()}, groups, SHARE)

    return PassAtK(
        start=_curve(_solved(start, groups)[0], n),
        trained=_curve(_solved(trained, groups)[0], n),
        at_one=difference(1),
        at_n=difference(n),
        start_high=alone(_solved(start, groups)[1]).high,
        trained_low=alone(_solved(trained, groups)[0]).low,
        errors=start.errored + trained.errored,
    )


def _solved(report: EvaluationReport, tasks: Mapping[str, str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return {task id: solved attempts} with those without a score counted as unsolved, and with them as solved."""
    n, accuracy = report.num_samples, report.per_task["accuracy"]
    errors = {task: report.errors.get(task, 0) for task in tasks}
    least = {task: round(accuracy.get(task, 0.0) * (n - errors[task])) for task in tasks}
    return least, {task: least[task] + errors[task] for task in tasks}


def _curve(solved: Mapping[str, int], n: int) -> tuple[float, ...]:
    return tuple(fmean(pass_at_k(n, count, k) for count in solved.values()) for k in range(1, n + 1))
