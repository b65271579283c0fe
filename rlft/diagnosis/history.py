"""The curves of a run, as its stored reports give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal

from rlft.comparison import compare
from rlft.diagnosis.evidence import LEVEL, passes
from rlft.types import EvaluationReport, TrainReport

Weights = Literal["adapter", "all", "random"]  # of LoRA; of a pretrained model; of one that begins at random


@dataclass(frozen=True, slots=True)
class History:
    """What is known of the rounds of a run.

    `rounds` are the reports of training, in their order. `validations` are reports on the split `validation` after so
    many rounds, from 0, and `metric` is what models are compared by. `train_tasks` is how many tasks there are to train
    on. `num_generations`, `learning_rate`, `beta` (weight of the KL) and `scale_rewards` are settings of training,
    `max_completion_length` (tokens) one of sampling. `trains` says which weights are trained. `improved` is whether the
    test split shows that the trained policy is better, which validation may be too small for. `honest` names the part
    of the reward that says what counts, if the config names one, and `weights` are those of the parts, as far as they
    are known. `level` is the chance with which each question about these curves may be answered wrongly.
    """

    rounds: Sequence[TrainReport]
    validations: Mapping[int, EvaluationReport]
    metric: str
    train_tasks: int
    num_generations: int
    learning_rate: float
    max_completion_length: int
    beta: float = 0.0
    scale_rewards: str = "group"
    trains: Weights = "all"
    improved: bool = False
    honest: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)
    level: float = LEVEL

    @property
    def counted(self) -> str:
        """The metric of reports that says what counts: the honest part's, else the share of solved attempts."""
        return f"rewards/{self.honest}" if self.honest else "accuracy"

    @property
    def counted_in_rounds(self) -> str:
        """The same metric of rounds."""
        return f"rewards/{self.honest}/mean" if self.honest else "accuracy"

    @property
    def counted_in_words(self) -> str:
        """What counts, as a sentence names it."""
        return f"`{self.honest}`, which says what counts," if self.honest else "the share of solved attempts"

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

    def groups(self, rounds: int | None = None) -> float:
        """Return how many groups of attempts were sampled in all rounds, or in the first ones."""
        return sum(len(report.fates) for report in self.rounds[:rounds]) / self.num_generations

    def passed(self, name: str, bound: float) -> bool:
        """Return whether the mean of a share over all rounds lies above `bound` beyond chance (by groups)."""
        share = self.mean(name)
        return share is not None and passes(share, bound, self.groups(), self.level)

    def parts(self) -> list[str]:
        """Return the names of the reward's parts that some round has scored, if there are several.

        A single part is the reward itself.
        """
        metrics = dict.fromkeys(name for report in self.rounds for name in report.metrics)
        names = [name.split("/")[1] for name in metrics if name.startswith("rewards/") and name.endswith("/mean")]
        return names if len(names) > 1 else []

    def scored_validations(self) -> list[tuple[int, EvaluationReport]]:
        """Return (rounds before it, report) of each validation with scores, in their order."""
        return [(number, self.validations[number]) for number in sorted(self.validations) if self._has_scores(number)]

    def has_risen(self) -> bool:
        """Return whether the test split shows a gain, or some validation is measurably better than the first one."""
        return self.improved or self.validation_has_risen()

    def validation_has_risen(self) -> bool:
        """Return whether some validation is measurably better than the first one, on the same tasks."""
        if not self.validations or not self._has_scores(min(self.validations)):
            return False
        first, *later = [report for _, report in self.scored_validations()]
        # Each of so many looks has its share of the chance of 5 % (Bonferroni), so that noise does not hide a cause.
        confidence = 1 - 0.05 / max(1, len(later))
        found = [compare(report, first, self.metric, confidence=confidence) for report in later]
        return any(each is not None and each.exceeds(0) for each in found)

    def validation_has_risen_and_stays(self) -> bool:
        """Return whether validation has risen, and the last one is measurably worse than none before."""
        if not self.validation_has_risen():
            return False
        *earlier, last = [report for _, report in self.scored_validations()]
        confidence = 1 - 0.05 / max(1, len(earlier))  # all looks for a loss share the chance of 5 %
        losses = [compare(last, report, self.metric, confidence=confidence) for report in earlier]
        return not any(each is not None and each.high_with_errors < 0 for each in losses)

    def _has_scores(self, number: int) -> bool:
        return bool(self.validations[number].per_task.get(self.metric))
