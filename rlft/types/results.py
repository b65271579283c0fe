"""The scores of rollouts, what judges were asked for them, and the reports of stages, which are stored as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import ClassVar, Literal

from rlft.outcome import FATES, Failure, Fate

_PREFIX = "judge/"  # begins the names of metrics


@dataclass(frozen=True, slots=True)
class Judging:
    """What judges were asked for a score, or for several, and what that took.

    Each vote is one of the `calls`, for which the judge was asked, or `cached`: it was known already. `retries` are the
    requests beside the first one of a call, and `failed` counts the calls that got no answer. Tokens are those that the
    endpoint says to have read and written, and `untold` counts the calls that were answered without saying so.
    `seconds` add up those of the calls, with waits between their requests; they are more than the wall
    seconds where calls go on side by side.

    >>> from rlft.types import Judging
    >>> one = Judging(calls=1, prompt_tokens=200, completion_tokens=10, seconds=1.5)
    >>> (one + Judging(calls=1, prompt_tokens=300)).prompt_tokens
    500
    """

    calls: int = 0
    retries: int = 0
    failed: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    untold: int = 0
    seconds: float = 0.0

    def __add__(self, other: Judging) -> Judging:
        """Return the sum."""
        two = asdict(other)
        return Judging(**{name: value + two[name] for name, value in asdict(self).items()})

    def metrics(self) -> dict[str, float]:
        """Return all of it by name, as `judge/calls`."""
        return {f"{_PREFIX}{name}": float(value) for name, value in asdict(self).items()}


def judging_in(metrics: Mapping[str, float]) -> Judging | None:
    """Return what `Judging.metrics` has put among metrics; `None` if no judge was asked."""
    found = {name.removeprefix(_PREFIX): value for name, value in metrics.items() if name.startswith(_PREFIX)}
    if not found:
        return None
    seconds = found.pop("seconds")
    return Judging(**{name: int(value) for name, value in found.items()}, seconds=seconds)


def add_judging(parts: Iterable[Judging | None]) -> Judging | None:
    """Return the sum of what was asked; `None` if no judge was."""
    asked = [part for part in parts if part is not None]
    return sum(asked, start=Judging()) if asked else None


@dataclass(frozen=True, slots=True)
class Reward:
    """The score of one rollout: the parts that `compute_reward` returned, and their weighted sum.

    >>> from rlft.types import Reward
    >>> Reward(
    ...     rollout_id="train-0-1-0",
    ...     task_id="1",
    ...     total=0.5,
    ...     parts={"right": 0.0, "short": 1.0},
    ...     solved=False,
    ...     answer="Cusco",
    ...     error=None,
    ...     seconds=0.01,
    ... ).parts["short"]
    1.0
    """

    rollout_id: str
    """The rollout that was scored."""
    task_id: str
    """Its task."""
    total: float | None
    """The weighted sum of `parts`; `None` when scoring failed, and then `error` says why."""
    parts: dict[str, float | None]
    """{part: score}. A part that is `None` does not apply and counts as the mean of those that do
    (`rlft.rewards.rubric`)."""
    solved: bool
    """Whether the total is at least the one that counts as solved (`reward.full`)."""
    answer: str | None
    """What `final_answer` returned for the attempt, for majority votes."""
    error: Failure | None
    """Why there is no score."""
    seconds: float
    """Wall seconds that scoring took."""
    steps: dict[str, tuple[float | None, ...]] = field(default_factory=dict)
    """{part: its scores of the turns, one each}, of the parts that are scored per turn. They are no part of the total;
    `None` is a turn to which the part does not apply."""
    judging: Judging | None = None
    """What judges were asked for the score; `None` if none was."""


@dataclass(frozen=True, slots=True)
class Rewards:
    """The rewards of a set of rollouts, in the same order, with the weights of their parts.

    `ranges` are the lowest and the highest possible score of `reward` and of each `rewards/<part>` that declares them,
    and of `reward/<environment>` where there are several.
    `step_weights` are those of the parts that are scored per turn. `members` are the names of the environments, where a
    run has several: what is compared over a batch is compared within one of them (`member_of`).
    """

    rows: tuple[Reward, ...]
    weights: dict[str, float]
    seconds: float = 0.0
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    step_weights: dict[str, float] = field(default_factory=dict)
    members: tuple[str, ...] = ()

    def member_of(self, reward: Reward) -> str:
        """Return the environment of a reward, by its task's id, which begins with the name; empty where there is one.

        >>> from rlft.types import Reward, Rewards
        >>> reward = Reward("1", "sums/7", 1.0, {"sums/right": 1.0}, True, "4", None, 0.0)
        >>> Rewards((reward,), {"sums/right": 1.0}, members=("sums", "words")).member_of(reward)
        'sums'
        """
        return reward.task_id.partition("/")[0] if self.members else ""

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Reward]:
        return iter(self.rows)


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
