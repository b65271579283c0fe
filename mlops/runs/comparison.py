"""Compares the arms of a run for its summary: their metrics, differences, and the status and promotion by these."""

from __future__ import annotations

from statistics import fmean

from mlops.runs.summary import Difference, Promotion, Status
from rlft.promotion import Decision, RegisteredVersion
from rlft.statistics import common_tasks, paired_difference
from rlft.types import Evaluation


def arm_metrics(evaluation: Evaluation) -> dict[str, float]:
    """Return the metrics of an arm: those of `test` by their plain names, the other splits' with the split in front."""
    metrics: dict[str, float] = {}
    for split, report in evaluation.splits.items():
        prefix = "" if split == "test" else f"{split}/"
        metrics |= {f"{prefix}{name}": interval.mean for name, interval in report.metrics.items()}
    return metrics


def difference(trained: Evaluation, other: Evaluation, *, metric: str, resamples: int, seed: int) -> Difference | None:
    """Return the paired difference on `test`, with its 95 % interval; `None` if no task was scored for both.

    `before` and `after` are the means of `other` and `trained` over the same tasks as the difference: a part of the
    reward need not apply to every task of both.
    """
    ours, theirs = common_tasks(trained.splits["test"].per_task[metric], other.splits["test"].per_task[metric])
    if not ours:
        return None
    interval = paired_difference(ours, theirs, resamples=resamples, seed=seed)
    return Difference(
        metric=metric,
        before=fmean(theirs.values()),
        after=fmean(ours.values()),
        mean=interval.mean,
        ci_low=interval.low,
        ci_high=interval.high,
        tasks=interval.count,
    )


def part_differences(
    trained: Evaluation, other: Evaluation, *, resamples: int, seed: int
) -> dict[str, Difference | None]:
    """Return the `difference` of every part of the reward and every metric of the environment, by its name."""
    names = [name for name in trained.splits["test"].per_task if name.startswith("rewards/")]
    both = [name for name in names if name in other.splits["test"].per_task]
    return {name: difference(trained, other, metric=name, resamples=resamples, seed=seed) for name in both}


def status_of(difference_to_start: Difference | None) -> Status:
    """Return `improved` if the whole interval on `test` is above zero, `failed` if there is nothing to compare."""
    if difference_to_start is None:
        return "failed"
    return "improved" if difference_to_start.ci_low > 0 else "not_improved"


def promotion_section(decision: Decision, version: RegisteredVersion | None, name: str) -> Promotion:
    """Return what happened in the registry; `version` is `None` if nothing was registered."""
    return Promotion(
        promoted=decision.promote and version is not None,
        name=name,
        version=version.version if version else None,
        alias=None if version is None else "champion" if decision.promote else "challenger",
        reasons=list(decision.reasons),
    )
