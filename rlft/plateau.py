"""Tests whether validation still rises, task by task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
from scipy.special import stdtrit

from rlft.statistics import effective_groups
from rlft.types import EvaluationReport

LEVEL = 0.1  # of the one-sided test: training that still helps a little is worth more than rounds that are saved
_LEAST_GROUPS = 2.0 - 1e-9  # as many as equal ones, below which there is no variance


def plateau(reports: Sequence[EvaluationReport], metric: str) -> str:
    """Return that the later half of these validations is not better than the earlier one; empty if it may be.

    `reports` are an even number in the order of training, on the same tasks. Each task's mean score in the earlier half
    is subtracted from that in the later one, and it is tested whether the mean difference is above zero (t-test,
    one-sided at `LEVEL`, over groups of tasks). So a single lucky validation does not count as a rise, and a slow rise
    adds up. Attempts without a score are left out: an outage
    during a validation is no fall. A task without any score in one of the halves is, too, and if none is left nothing
    shows a plateau. With fewer than two groups, or with one that outweighs
    all others, it is only looked whether the mean is above zero.
    """
    half, scores = len(reports) // 2, [report.per_task.get(metric, {}) for report in reports]
    earlier, later = _means(scores[:half]), _means(scores[half:])
    tasks = sorted(earlier.keys() & later.keys())
    if not tasks:
        return ""
    rises = np.array([later[task] - earlier[task] for task in tasks])
    if _least_at(rises, [reports[-1].groups.get(task, task) for task in tasks]) > 0:
        return ""
    return (
        f"from the {half} validations before them to the last {half}, {metric} has changed by {rises.mean():+.3f} in "
        f"the mean of {len(tasks)} tasks, no more than chance brings about"
    )


def _means(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return {task: the mean of its scores} over the validations that have one."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for each in scores:
        for task, score in each.items():
            found[task].append(score)
    return {task: fmean(values) for task, values in found.items()}


def _least_at(rises: np.ndarray, groups: Sequence[str]) -> float:
    """Return the lower bound of the mean of `rises` at `LEVEL`; the mean itself if there are too few groups.

    The variance is that of the jackknife over groups, with the degrees of freedom of Kish's effective number of groups:
    a large group pulls the mean towards itself, so that the sum of its residuals is too small, and counts as many. With
    groups of one size both are what they are in a t-test over the means of groups.
    """
    _, numbers = np.unique(groups, return_inverse=True)
    sizes = np.bincount(numbers).astype(np.float64)
    effective = float(effective_groups(sizes))
    if effective < _LEAST_GROUPS:
        return float(rises.mean())
    sums = np.bincount(numbers, weights=rises - rises.mean()) / (1 - sizes / len(rises))
    error = np.sqrt((len(sums) - 1) / len(sums) * np.sum(sums**2)) / len(rises)
    return float(rises.mean() - stdtrit(effective - 1, 1 - LEVEL) * error)
