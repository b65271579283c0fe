"""When training stops before its last round: one more would pass a budget, or validation no longer rises."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy.special import stdtrit

from rlft.config.training import BudgetConfig
from rlft.evaluation.statistics import effective_groups
from rlft.types import EvaluationReport, TrainReport

TOKENS = "completions/sampled_tokens"  # of a round's metrics
_ROUNDS = {1: "one more round", 2: "two more rounds"}


@dataclass
class Account:
    """What a run has spent so far, in wall `seconds` and sampled `tokens`, on a machine with so many `gpus`.

    `dearest_seconds` and `dearest_tokens` are the most that one of its rounds took, and `validation_seconds` the most
    that a validation did.
    """

    budget: BudgetConfig
    gpus: int = 0
    seconds: float = 0.0
    tokens: float = 0.0
    dearest_seconds: float = 0.0
    dearest_tokens: float = 0.0
    validation_seconds: float = 0.0

    def add_round(self, report: TrainReport, seconds: float, worked: float) -> None:
        """Count a round that has taken so many wall seconds now, without its validation.

        A round from the cache takes next to none; then those that its work took in the run that `worked` are counted,
        so that a run that is resumed ends where it would have ended.
        """
        seconds = max(seconds, worked)
        tokens = report.metrics.get(TOKENS, 0.0)
        self.seconds += seconds
        self.tokens += tokens
        self.dearest_seconds = max(self.dearest_seconds, seconds)
        self.dearest_tokens = max(self.dearest_tokens, tokens)

    def add_validation(self, seconds: float) -> None:
        """Count a validation that has taken so many wall seconds."""
        self.seconds += seconds
        self.validation_seconds = max(self.validation_seconds, seconds)

    def reason_to_end(self, more: int = 1, ahead: float = 0.0) -> str:
        """Return which bound so many `more` rounds would pass, in a sentence; empty if none, or without a bound.

        They come with the validation that has to follow the last one, whether or not it would be the last. `ahead` are
        the tokens of one more round that is sampled already: it takes no others.
        """
        hours, seconds = self.gpus / 3600, more * self.dearest_seconds + self.validation_seconds
        tokens = 0.0 if ahead else more * self.dearest_tokens
        for bound, spent, dearest, what in (
            (self.budget.minutes, self.seconds / 60, seconds / 60, "minutes"),
            (self.budget.gpu_hours, self.seconds * hours, seconds * hours, "GPU-hours"),
            (self.budget.tokens, self.tokens + ahead, tokens, "tokens"),
        ):
            if bound is not None and spent + dearest > bound:
                rest = f"and {_ROUNDS[more]} would take up to {dearest:,.4g}"
                if ahead and what == "tokens":
                    rest = f"{ahead:,.4g} of them on the round that was sampled ahead"
                return f"budget: {spent:,.4g} of {bound:,.4g} {what} are spent, {rest}"
        return ""


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
