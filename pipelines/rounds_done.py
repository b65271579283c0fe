"""What the rounds of a run have come to so far: policies, reports, validations and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipelines.stages import Artifact
from rlft.budget import TOKENS
from rlft.comparison import is_better
from rlft.config import Config
from rlft.curriculum.groups import RESAMPLING
from rlft.flops import ROLLOUT_FLOPS, TRAIN_FLOPS
from rlft.monitors import Alarm
from rlft.outcome import FATES
from rlft.plateau import plateau
from rlft.types import Evaluation, EvaluationReport, Judging, TrainReport, add_judging, judging_in


@dataclass
class Rounds:
    """What the rounds came to: the best validated policy, a report for each round, and why training ended early.

    `best_round` is the number of rounds that were done when `best` was validated; it is 0 while `best` is the policy
    that training started from.
    """

    best: Artifact
    best_round: int = 0
    best_report: EvaluationReport | None = None
    reports: list[TrainReport] = field(default_factory=list)
    unused: TrainReport | None = None  # of a round that was sampled ahead when training ended
    stopped: str = ""
    validations: list[float] = field(default_factory=list)  # the FLOPs of each
    validations_judging: list[Judging | None] = field(default_factory=list)
    start_report: EvaluationReport | None = None
    validated: dict[int, EvaluationReport] = field(default_factory=dict)  # by the number of rounds before
    alarms: dict[str, Alarm] = field(default_factory=dict)  # by monitor, the first of each
    is_stored: bool = False  # whether the last of them was done earlier, and came from the store
    counted: list[dict[str, int]] = field(default_factory=list)  # what `counts` has counted of the first reports

    def note_cost(self, validation: Evaluation) -> None:
        """Note what a validation took."""
        self.validations.append(validation.flops or 0.0)
        self.validations_judging.append(validation.judging)

    def note_validation(self, policy: Artifact, number: int, validation: Evaluation, metric: str) -> None:
        """Take the evaluation of a policy after `number` rounds, which may be the best so far.

        Rollouts without a score count as the lowest one, so that no policy is the best because its hard tasks failed.
        """
        self.note_cost(validation)
        self.validated[number] = report = validation.splits["validation"]
        if is_better(report, self.best_report, metric):
            self.best, self.best_round, self.best_report = policy, number, report

    def plateau(self, config: Config) -> str:
        """Return why the last `evaluation.patience` validations are no rise; empty if they are one, or are too few.

        Validations that failed, without any score, are not counted.
        """
        patience, metric = config.evaluation.patience, config.chosen_by
        scored = [report for _, report in sorted(self.validated.items()) if report.per_task.get(metric)]
        reports = scored[-2 * patience :]
        reason = plateau(reports, metric) if 0 < 2 * patience == len(reports) else ""
        return f"plateau: {reason}" if reason else ""

    def stopping_alarm(self) -> str:
        """Return the name of a monitor whose alarm was to end training; empty if there is none."""
        return next((name for name, alarm in self.alarms.items() if alarm.action == "stop"), "")

    def often_said(self) -> list[str]:
        """Return completions that the policy gave often in validation, before training and when it was the best."""
        reports = [each for each in (self.start_report, self.best_report) if each is not None]
        return list(dict.fromkeys(text for report in reports for text in report.frequent))

    def counts(self) -> dict[str, int]:
        """Return how many rollouts of all rounds were sampled, trained on, filtered and errored."""
        totals: dict[str, int] = dict.fromkeys(("sampled", *FATES), 0)
        self.counted += [report.counts() for report in self.reports[len(self.counted) :]]  # asked after each round
        ahead = [] if self.unused is None else [self.unused.counts()]
        for counts in self.counted + ahead:
            for key, value in counts.items():
                totals[key] += value
        return totals

    def ages(self) -> dict[int, int]:
        """Return how many rollouts of the rounds that were trained were of each age (`TrainReport.age`)."""
        totals = Counter[int]()
        for report in self.reports:
            totals[report.age] += len(report.fates)
        return dict(sorted(totals.items()))

    @property
    def _sampled(self) -> list[TrainReport]:
        """The reports of all rounds that were sampled."""
        return self.reports + ([] if self.unused is None else [self.unused])

    def tokens(self) -> int:
        """Return how many tokens all rounds have sampled."""
        return int(sum(report.metrics.get(TOKENS, 0.0) for report in self._sampled))

    def judging(self) -> Judging | None:
        """Return what judges were asked for the rewards of all rounds; `None` if none was."""
        return add_judging(judging_in(report.metrics) for report in self._sampled)

    def resampling(self) -> dict[str, int]:
        """Return what groups without variance have cost in all rounds; empty if none was to be replaced."""
        totals = Counter[str]()
        for report in self._sampled:
            totals.update(
                {
                    each.removeprefix(RESAMPLING): int(report.metrics[each])
                    for each in report.metrics
                    if each.startswith(RESAMPLING)
                }
            )
        return {name: count for name, count in totals.items() if name != "gen_batches"}

    def flops(self) -> float:
        """Return the FLOPs of all rounds: sampling, training and validation."""
        kinds = (ROLLOUT_FLOPS, TRAIN_FLOPS)
        return sum(self.validations) + sum(report.metrics.get(kind, 0.0) for report in self._sampled for kind in kinds)

    def validation_flops(self) -> float:
        """Return the most FLOPs that a validation took."""
        return max(self.validations, default=0.0)

    def attempt_tokens(self) -> float | None:
        """Return the mean length of the attempts of the first round in tokens; `None` if all failed before any."""
        return self.reports[0].metrics.get("completions/mean_length") if self.reports else None

    def seconds(self) -> dict[str, float]:
        """Return the wall seconds of `rollout`, `score` and `train`, over all rounds."""
        return seconds_of(self._sampled)


def seconds_of(reports: Sequence[TrainReport]) -> dict[str, float]:
    """Return the wall seconds of `rollout`, `score` and `train`, over these rounds."""
    kinds = ("rollout", "score", "train")
    return {kind: sum(report.metrics.get(f"perf/{kind}_seconds", 0.0) for report in reports) for kind in kinds}
