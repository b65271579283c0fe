"""The reports of training and evaluation, which are stored as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from rlft.outcome import FATES, Fate
from rlft.types.reward import Judging

Effect = Literal["widened", "ahead", "sharpened", "lost", "open"]  # what training did to several attempts at a task


class Report:
    """Base class of the reports of stages: dataclasses that are stored as JSON.

    Fields that are named in `passing` may differ between two runs of the same work, and do not count in the cache.
    """

    __slots__ = ()
    passing: ClassVar[frozenset[str]] = frozenset({"seconds"})


@dataclass(frozen=True, slots=True)
class TrainReport(Report):
    """What the training step of a round did: its metrics, and the fate of every sampled rollout.

    `fates` maps each rollout id to the text of its `Fate`. `updates` counts optimizer steps. `stopped` is the reason if
    the round was undone and the step returned the policy that it was given (loss not finite, KL too large). `drawn`
    says of each task why it was drawn, and of those that others replaced that they were thrown away; it is empty where
    every task is drawn as often as any other and none is replaced. `age` is how many rounds of training the policy that
    sampled these rollouts was behind the one that was trained on them (`training.lag`).
    """

    round: int
    metrics: dict[str, float]
    fates: dict[str, str]
    updates: int
    seconds: float
    stopped: str | None = None
    drawn: dict[str, str] = field(default_factory=dict)
    age: int = 0

    def counts(self) -> dict[str, int]:
        """Return how many rollouts were sampled, and how many of them had each kind of fate."""
        kinds = [Fate.read(fate).kind for fate in self.fates.values()]
        counts = {kind: kinds.count(kind) for kind in FATES}
        return {"sampled": len(kinds), **counts}


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its confidence interval; `count` is the number of tasks that it is computed from.

    `groups` is that of their groups; 0 in reports of versions that did not count them. Groups of unequal size say no
    more than `effective_groups` of equal size.
    """

    mean: float
    low: float
    high: float
    count: int
    groups: int = 0
    effective_groups: float = 0.0


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """The metrics of one policy on one split, and the scores per task that they are computed from.

    `per_task` maps a metric's name (`accuracy`, `reward`, and each `rewards/<part>`) to {task id: mean over samples},
    for paired comparisons. `num_samples` is the number of attempts at a task, `errored` that of rollouts without score.
    `groups` names the group of every task; `errors` counts the rollouts without score of each task that has some.
    `extremes` are the lowest and the highest score of a single rollout, by metric, and `ranges` those that are possible
    where the environment declares them. `answers` is how many different answers make up 95 % of the attempts
    (`variety`), `right_answers` the same of the tasks' answers, where each task has one, and `solved_answers` the same
    of the attempts that are solved. `frequent` maps some completions to how often their answer was given, the most
    frequent ones first. `environments` names the environment of every task where
    a run has several; `metrics` then also has `environments/<name>/accuracy` and `environments/<name>/reward`.
    """

    split: str
    policy: str
    num_samples: int
    metrics: dict[str, Interval]
    per_task: dict[str, dict[str, float]]
    errored: int = 0
    frac_tasks_with_variance: float = 0.0
    groups: dict[str, str] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    extremes: dict[str, tuple[float, float]] = field(default_factory=dict)
    answers: int = 0
    right_answers: int | None = None
    solved_answers: int = 0
    frequent: dict[str, int] = field(default_factory=dict)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    environments: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evaluation(Report):
    """The reports of one policy by split, the wall seconds of sampling and scoring, and the FLOPs of sampling.

    The FLOPs of a model behind an address are `None`, as nobody knows them. `read` are the tokens that were encoded and
    those of the sequences (`rlft.models.flops`), by name. `judging` is what judges were asked for the scores, `None` if
    none was; results from the cache have that of the run that did the work.
    """

    passing: ClassVar[frozenset[str]] = Report.passing | {"judging"}

    splits: dict[str, EvaluationReport]
    seconds: float = 0.0
    flops: float | None = 0.0
    judging: Judging | None = None
    read: dict[str, float] = field(default_factory=dict)
