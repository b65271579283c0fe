"""Tests whether validation still rises, task by task."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from rlft.comparison import completed, range_of
from rlft.types import EvaluationReport

LEVEL = 0.1  # of the one-sided test: training that still helps a little is worth more than rounds that are saved


def plateau(reports: Sequence[EvaluationReport], metric: str) -> str:
    """Return that the later half of these validations is not better than the earlier one; empty if it is.

    `reports` are an even number in the order of training, on the same tasks. Each task's mean score in the earlier half
    is subtracted from that in the later one, and it is tested whether the mean difference is above zero (t-test,
    one-sided at `LEVEL`, over groups of tasks: cluster-robust variance with G - 1 degrees of freedom). So a single
    lucky validation does not count as a rise, and a slow rise adds up. Rollouts without a score count as the lowest one
    (`rlft.comparison.completed`); tasks that a report does not know are left out. With fewer than two groups it is only
    looked whether the mean is above zero.
    """
    ends = [range_of(metric, report.ranges) for report in reports]
    known = [value for report in reports for value in report.per_task.get(metric, {}).values()]
    if not known:
        return "no validation has a score"
    low = ends[0].low if ends[0] is not None else min(known)
    scores = [completed(report, metric, low) if metric in report.per_task else {} for report in reports]
    tasks: list[str] = sorted(set.intersection(*(set(found) for found in scores)))
    if not tasks:
        return "no task was scored in all of the validations"
    by_task = np.array([[found[task] for found in scores] for task in tasks])
    half = len(reports) // 2
    rises = by_task[:, half:].mean(axis=1) - by_task[:, :half].mean(axis=1)
    if _least_at(rises, [reports[-1].groups.get(task, task) for task in tasks]) > 0:
        return ""
    return (
        f"from the {half} validations before them to the last {half}, {metric} has changed by {rises.mean():+.3f} in "
        f"the mean of {len(tasks)} tasks, no more than chance brings about"
    )


def _least_at(rises: np.ndarray, groups: Sequence[str]) -> float:
    """Return the lower bound of the mean of `rises` at `LEVEL`; the mean itself if there are too few groups."""
    _, numbers = np.unique(groups, return_inverse=True)
    sums = np.bincount(numbers, weights=rises - rises.mean())
    count = len(sums)
    if count < 2:
        return float(rises.mean())
    error = np.sqrt(count / (count - 1) * np.sum(sums**2)) / len(rises)
    return float(rises.mean() - stats.t.ppf(1 - LEVEL, count - 1) * error)
