"""Confidence intervals over groups of tasks, for the mean score of one policy and for the difference of two.

Attempts at one task resemble each other, and so do tasks of one group (questions about one document, versions of one
sum). What is independent are groups, so the spread between groups makes the interval.
`compare_pass_at_k` asks whether training solves more tasks in several attempts, or only sharpens the first one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from rlft.types import Effect, EvaluationReport, Interval

# Groups that are imagined at either end of the range of scores, as Agresti & Coull (1998) add two successes and two
# failures. A difference takes the outer ends of two intervals: with six, rare losses that outweigh many small gains
# pass a gate less often; with one, a gain on nearly all tasks is not drawn too far to the middle.
IMAGINED, IMAGINED_OF_DIFFERENCE = (2.0,), (6.0, 1.0)
Array = NDArray[np.float64]


class Range(NamedTuple):
    """The lowest and the highest score that are possible."""

    low: float
    high: float

    def minus(self, other: Range) -> Range:
        """Return the range of a difference."""
        return Range(self.low - other.high, self.high - other.low)


SHARE = Range(0.0, 1.0)


def varies(values: Sequence[float]) -> bool:
    """Return whether numbers differ by more than a millionth of the largest, which rounding does not.

    Every question whether the rewards of a group differ is decided by this.
    """
    if len(values) < 2:
        return False
    return max(values) - min(values) > 1e-6 * max(*map(abs, values), 1e-6)


def mean_interval(
    values: Mapping[str, float],
    groups: Mapping[str, str] | None = None,
    range: Range | None = None,
    *,
    imagined: Sequence[float] = IMAGINED,
    confidence: float = 0.95,
) -> Interval:
    """Return the mean of {task id: score} with its confidence interval over groups.

    `groups` names the group of each task; one that is not named is a group of its own. `range` is that of the scores.
    Without it, it reaches to both sides of the mean as far as the score that is farthest from it: nothing then tells of
    rare large losses that did not occur, and scores that are all equal have an interval of width 0.

    The interval is `bounds`. A single group gives the whole range. Raises ValueError without values, or if one of them
    is not finite or lies outside the range.
    """
    tasks = sorted(values)
    data = np.asarray([values[task] for task in tasks], dtype=np.float64)
    if data.size == 0:
        raise ValueError("an interval needs at least one value")
    if not np.isfinite(data).all():
        raise ValueError(f"{int((~np.isfinite(data)).sum())} of {data.size} values are not finite")
    mean = float(data[0]) if (data == data[0]).all() else float(data.mean())
    farthest = float(np.abs(data - mean).max())
    ends = Range(mean - farthest, mean + farthest) if range is None else range
    slack = 1e-9 * max(1.0, abs(ends.low), abs(ends.high))
    if data.min() < ends.low - slack or data.max() > ends.high + slack:
        raise ValueError(f"scores from {data.min():g} to {data.max():g} are not within {ends.low:g} to {ends.high:g}")
    names, places = np.unique([(groups or {}).get(task, f"\0{task}") for task in tasks], return_inverse=True)
    sums: Array = np.bincount(places, weights=data).astype(np.float64)
    sizes: Array = np.bincount(places).astype(np.float64)
    if len(names) < 2:
        low, high = ends
    else:
        low, high = (float(end) for end in bounds(sums, sizes, ends, imagined=imagined, confidence=confidence))
    effective = round(float(effective_groups(sizes)), 3)
    return Interval(mean, min(low, mean), max(high, mean), data.size, len(names), effective)


def effective_groups(sizes: Array) -> Array:
    """Return how many groups of equal size say as much as groups of these sizes [..., groups] (Kish 1965)."""
    return sizes.sum(-1) ** 2 / (sizes**2).sum(-1)


def bounds(
    sums: Array, sizes: Array, range: Range, *, imagined: Sequence[float] = IMAGINED, confidence: float = 0.95
) -> tuple[Array, Array]:
    """Return the ends of the interval of the mean over tasks, from sums and sizes of groups [..., groups].

    The variance is that between groups of different sizes (linearised, as in Cameron & Miller 2015, Journal of Human
    Resources 50, section II), the quantile Student's with one degree of freedom less than there are effective groups.
    Imagined groups at either end of the range are added to the data; with several numbers of them the outer ends count.
    They are as large as the group that a random task is in. Agresti & Coull (1998, The American
    Statistician 52) do so for a proportion, Agresti & Caffo (2000) and Bonett & Price (2012) for differences. With them
    the interval holds for rates near 0 and 1, where none or all of a few tasks are solved, and it is no wider for
    rates in the middle.

    The end on the side of the longer tail is moved outward: samples that lack rare large losses have a high mean and a
    small spread at once, so that a lower bound is above the true mean too often. The quantile q grows by skewness *
    (2 q^2 + 1) / (6 sqrt(groups)), the first term of the Edgeworth expansion (Hall 1992, The Bootstrap and Edgeworth
    Expansion, section 2.6; Johnson 1978, JASA 73). Neither end is ever moved inward. `benchmarks.calibration`
    measures how often the interval holds the true mean.
    """
    ends = [_bounds(sums, sizes, range, each, confidence) for each in imagined]
    low, high = np.minimum.reduce([low for low, _ in ends]), np.maximum.reduce([high for _, high in ends])
    return low, high


def _bounds(sums: Array, sizes: Array, range: Range, imagined: float, confidence: float) -> tuple[Array, Array]:
    count = effective_groups(sizes)[..., None]
    tasks = sizes.sum(-1, keepdims=True)
    size = tasks / count
    weight = tasks + 2 * imagined * size
    centre = (sums.sum(-1, keepdims=True) + imagined * size * (range.low + range.high)) / weight
    residuals = sums - centre * sizes
    squares = (residuals**2).sum(-1, keepdims=True)
    squares += imagined * size**2 * ((range.low - centre) ** 2 + (range.high - centre) ** 2)
    groups = count + 2 * imagined
    spread = np.sqrt(squares * groups / (groups - 1)) / weight
    quantile = stdtrit(np.maximum(count - 1, 1), (1 + confidence) / 2)
    cubes = (residuals**3).sum(-1, keepdims=True)  # without the imagined groups, whose ends are no tails
    skewness = cubes / np.where(squares > 0, squares, 1.0) ** 1.5  # over the root of the number of groups
    longer = skewness * (2 * quantile**2 + 1) / 6
    low = centre - (quantile + np.maximum(-longer, 0)) * spread
    high = centre + (quantile + np.maximum(longer, 0)) * spread
    return np.maximum(low, range.low)[..., 0], np.minimum(high, range.high)[..., 0]


def common_tasks(a: Mapping[str, float], b: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Return both scores, {task id: score} each, over the tasks that have one in both, in the order of their ids.

    A part of the reward need not apply to every task, and a rollout that failed has no score.
    """
    both = sorted(a.keys() & b.keys())
    return {task: a[task] for task in both}, {task: b[task] for task in both}


def paired_difference(
    a: Mapping[str, float],
    b: Mapping[str, float],
    groups: Mapping[str, str] | None = None,
    range: Range | None = None,
    *,
    confidence: float = 0.95,
) -> Interval:
    """Return the mean of a - b over tasks, {task id: score} each, with its interval over groups.

    `range` is that of the scores, not of their difference (`Range.minus`). Pairing takes out how hard each task is,
    which both policies share. Raises ValueError if the task ids differ.
    """
    if a.keys() != b.keys():
        raise ValueError(
            f"a paired comparison needs the same tasks on both sides, and {len(a.keys() ^ b.keys())} differ"
        )
    ends = None if range is None else range.minus(range)
    differences = {task: a[task] - b[task] for task in a}
    return mean_interval(differences, groups, ends, imagined=IMAGINED_OF_DIFFERENCE, confidence=confidence)


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
