"""The curves of a run, as its stored reports give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rlft.comparison import compare
from rlft.types import EvaluationReport, TrainReport


@dataclass(frozen=True, slots=True)
class History:
    """What is known of the rounds of a run.

    `rounds` are the reports of training, in their order. `validations` are reports on the split `validation` after so
    many rounds, from 0, and `metric` is what models are compared by. `train_tasks` is how many tasks there are to train
    on. `num_generations` and `learning_rate` are settings of training, `max_completion_length` (tokens) one
    of sampling.
    """

    rounds: Sequence[TrainReport]
    validations: Mapping[int, EvaluationReport]
    metric: str
    train_tasks: int
    num_generations: int
    learning_rate: float
    max_completion_length: int

    def curve(self, name: str) -> list[float]:
        """Return a metric of the rounds that have it."""
        return [report.metrics[name] for report in self.rounds if name in report.metrics]

    def mean(self, name: str) -> float | None:
        """Return the mean of a metric over all rounds; `None` if no round has it."""
        return fmean(found) if (found := self.curve(name)) else None

    def change(self, name: str) -> tuple[float, float] | None:
        """Return the means of a metric over the first and over the last third of the rounds; `None` below 3 rounds."""
        curve = self.curve(name)
        third = len(curve) // 3
        return (fmean(curve[:third]), fmean(curve[-third:])) if third else None

    def parts(self) -> list[str]:
        """Return the names of the reward's parts that some round has scored, if there are several.

        A single part is the reward itself.
        """
        metrics = dict.fromkeys(name for report in self.rounds for name in report.metrics)
        names = [name.split("/")[1] for name in metrics if name.startswith("rewards/") and name.endswith("/mean")]
        return names if len(names) > 1 else []

    def has_risen(self) -> bool:
        """Return whether some validation is measurably better than the first one, on the same tasks."""
        first, *later = [self.validations[number] for number in sorted(self.validations)] or [None]
        if first is None or not self._is_scored(first):
            return False
        # Each of so many looks has its share of the chance of 5 % (Bonferroni), so that noise does not hide a cause.
        confidence = 1 - 0.05 / max(1, len(later))
        found = [
            compare(report, first, self.metric, confidence=confidence)
            for report in later
            if report is not None and self._is_scored(report)
        ]
        return any(each is not None and each.exceeds(0) for each in found)

    def _is_scored(self, report: EvaluationReport) -> bool:
        return bool(report.per_task.get(self.metric))
