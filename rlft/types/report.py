"""What stages say of themselves: training and evaluation, as JSON."""

from __future__ import annotations

from dataclasses import dataclass

from rlft.outcome import Fate


class Report:
    """Base of what a stage says of itself: dataclasses that are stored as JSON."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TrainReport(Report):
    """What a training step did: metrics, and the fate of every sampled rollout.

    `fates` maps each rollout id to the text of its `Fate`, as it is stored. `stopped` holds the reason when
    the step kept the policy it was given (loss not finite, KL too large).
    """

    round: int
    metrics: dict[str, float]
    fates: dict[str, str]
    updates: int
    seconds: float
    stopped: str | None = None

    def counts(self) -> dict[str, int]:
        """Totals of the ledger; `trained + filtered + errored == sampled` always."""
        kinds = [Fate.read(fate).kind for fate in self.fates.values()]
        counts = {kind: kinds.count(kind) for kind in ("trained", "filtered", "errored")}
        return {"sampled": len(kinds), **counts}


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its confidence interval; `count` is the number of tasks it rests on."""

    mean: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """Metrics of one policy on one split, and the per-task scores they are made of, for paired comparisons.

    `per_task` maps a metric's name (`accuracy`, `reward`, and each `rewards/<part>`) to {task id: mean over samples}.
    """

    split: str
    policy: str
    num_samples: int
    metrics: dict[str, Interval]
    per_task: dict[str, dict[str, float]]
    errored: int = 0
    frac_tasks_with_variance: float = 0.0


@dataclass(frozen=True, slots=True)
class Evaluation(Report):
    """The reports of one policy, by split, and the wall seconds that sampling and scoring took."""

    splits: dict[str, EvaluationReport]
    seconds: float = 0.0
