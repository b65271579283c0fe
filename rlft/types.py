"""The things that flow through a run: tasks, rollouts, rewards, reports. Frozen, and all there is to know of a stage.

`Task` -> (harness, engine) -> `Rollout` -> (environment) -> `Reward` -> (advantage, loss) -> next policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import NotRequired, TypedDict  # noqa: UP035 - pydantic refuses typing's before 3.12

Split = Literal["train", "validation", "gate", "test", "off_distribution"]
SPLITS: tuple[Split, ...] = ("train", "validation", "gate", "test", "off_distribution")
StopReason = Literal["stop", "length", "error"]


class FunctionCall(TypedDict):
    """What is called, and with what."""

    name: str
    arguments: dict[str, Any]


class ToolCall(TypedDict):
    """One call of a tool."""

    id: str
    type: Literal["function"]
    function: FunctionCall


class Message(TypedDict):
    """One message of a conversation, in the form that chat templates take; `rlft.messages` reads others."""

    role: str
    content: str
    tool_calls: NotRequired[list[ToolCall]]
    tool_call_id: NotRequired[str]
    name: NotRequired[str]


@dataclass(frozen=True, slots=True)
class Task:
    """A problem and what is needed to score an attempt at it.

    `answer` is the ground truth (any JSON value, `None` where there is none); `info` is whatever else the environment
    needs (JSON); tasks with the same `group` never stand in different splits.
    """

    id: str
    environment: str
    prompt: tuple[Message, ...]
    answer: Any
    info: dict[str, Any]
    split: Split
    group: str


@dataclass(frozen=True, slots=True, eq=False)
class Rollout:
    """A recorded attempt at a task, exactly as it was sampled.

    `token_ids` (int32), `loss_mask` (bool) and `logprobs` (float32) have one entry per token of the whole sequence,
    prompt included. `loss_mask` is true where the model sampled the token; `logprobs` holds its natural-log
    probability under the sampling distribution there, and 0 elsewhere. `messages` is the conversation, prompt first;
    it is derived from the tokens and never turned back into tokens. `error` is `<where>: <why>`.
    """

    rollout_id: str
    task_id: str
    sample: int
    round: int
    messages: tuple[Message, ...]
    token_ids: NDArray[np.int32]
    loss_mask: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    prompt_length: int
    turns: int
    tool_calls: int
    tool_errors: int
    state: dict[str, Any]
    stop_reason: StopReason
    truncated: bool
    error: str | None
    seconds: float
    policy: str
    sampling: str
    environment: str
    seed: int

    @property
    def completion_length(self) -> int:
        """Tokens after the prompt, sampled or not."""
        return len(self.token_ids) - self.prompt_length


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Rollouts in the order (task, sample), all from one policy.

    `seconds` is the wall time it took to sample them, `metrics` what the engine measured of itself.
    """

    rows: tuple[Rollout, ...]
    seconds: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Rollout]:
        return iter(self.rows)


@dataclass(frozen=True, slots=True)
class Reward:
    """The score of one rollout.

    `total` is the weighted sum of `parts`, or `None` when scoring failed (`error` says where and why). A part that is
    `None` does not apply to this rollout and counts as the mean of those that do (`rlft.rewards.rubric`). `answer` is
    the final answer as the environment reads it, for majority votes. `solved` says whether the reward is full.
    """

    rollout_id: str
    task_id: str
    total: float | None
    parts: dict[str, float | None]
    solved: bool
    answer: str | None
    error: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Rewards:
    """The rewards of a set of rollouts, in the same order, with the weights of their parts."""

    rows: tuple[Reward, ...]
    weights: dict[str, float]
    seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Reward]:
        return iter(self.rows)


@dataclass(frozen=True, slots=True)
class TrainReport:
    """What a training step did: metrics, and the fate of every sampled rollout.

    `fates` maps each rollout id to `trained`, `filtered:<why>` or `errored:<where>`. `stopped` holds the reason when
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
        kinds = [fate.split(":", 1)[0] for fate in self.fates.values()]
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
class Evaluation:
    """The reports of one policy, by split, and the wall seconds that sampling and scoring took."""

    splits: dict[str, EvaluationReport]
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TaskSet:
    """Tasks of all splits with a fingerprint of their content, and the notes ingestion left (duplicates, bad rows)."""

    tasks: tuple[Task, ...]
    fingerprint: str
    notes: dict[str, Any] = field(default_factory=dict)

    def split(self, name: Split) -> tuple[Task, ...]:
        """The tasks of one split, in their stored order."""
        return tuple(task for task in self.tasks if task.split == name)

    def by_id(self) -> dict[str, Task]:
        """All tasks by their id."""
        return {task.id: task for task in self.tasks}


class Trajectory(list[Message]):
    """What `compute_reward` is given: the messages after the prompt, tool results included.

    It is a plain list of messages that also knows the task it answers and how the rollout ended.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        *,
        task: Task,
        state: dict[str, Any] | None = None,
        truncated: bool = False,
    ) -> None:
        super().__init__(messages)
        self.task = task
        self.state = state or {}
        self.truncated = truncated

    @property
    def text(self) -> str:
        """The content of the last assistant message, or an empty string."""
        return next((m["content"] for m in reversed(self) if m["role"] == "assistant"), "")

    def __str__(self) -> str:
        return self.text
