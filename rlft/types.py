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

from rlft.outcome import Failure, Fate

Split = Literal["train", "validation", "gate", "test", "off_distribution"]
SPLITS: tuple[Split, ...] = ("train", "validation", "gate", "test", "off_distribution")
StopReason = Literal["stop", "length", "error"]


class FunctionCall(TypedDict):
    """What is called, and with what.

    >>> function = {"name": "look_up", "arguments": {"country": "Peru"}}
    """

    name: str
    """The tool's name."""
    arguments: dict[str, Any]
    """{argument: value}, an object and never JSON text."""


class ToolCall(TypedDict):
    """One call of a tool, as it stands in a message's `tool_calls`.

    >>> function = {"name": "look_up", "arguments": {"country": "Peru"}}
    >>> call = {"id": "call00000", "type": "function", "function": function}
    """

    id: str
    """Names the call; the message of role `tool` that answers it has it as `tool_call_id`."""
    type: Literal["function"]
    """Always `function`."""
    function: FunctionCall
    """The tool's name and the arguments."""


class InvalidToolCall(TypedDict):
    """A call that could not be read, as it stands in a message's `invalid_tool_calls`.

    >>> call = {"text": '<tool_call>{"name": add}</tool_call>', "error": "tool call 1 is not JSON: ...", "position": 20}
    >>> call["text"][call["position"]]
    'a'
    """

    text: str
    """What the model wrote, with the marks around it; empty for a second error of one text."""
    error: str
    """What is wrong with it, as the model is told."""
    position: int | None
    """The index in `text` at which reading stopped; `None` where no single place is wrong."""


class Message(TypedDict):
    """One message of a conversation: a dict, in the form that chat templates take. `rlft.messages` reads other forms.

    >>> call = {"id": "call00000", "type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": 2}}}
    >>> message = {"role": "assistant", "content": "", "tool_calls": [call]}
    >>> message["tool_calls"][0]["function"]["arguments"]["b"]
    2
    """

    role: str
    """`system`, `user`, `assistant` or `tool`."""
    content: str
    """The text, which may be empty; always there."""
    tool_calls: NotRequired[list[ToolCall]]
    """The calls of an assistant's message; the key is absent where there are none."""
    invalid_tool_calls: NotRequired[list[InvalidToolCall]]
    """What a model wrote as calls and could not be read; no part of `content`, and absent where there is none."""
    tool_call_id: NotRequired[str]
    """In a tool's message: the call that it answers."""
    name: NotRequired[str]
    """In a tool's message: the tool's name."""
    failed: NotRequired[bool]
    """In a tool's message: `True` where the call failed, and absent elsewhere. The model never reads it, only the
    text."""


class Report:
    """Base of what a stage says of itself: dataclasses that are stored as JSON."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Task:
    """A problem and what is needed to score an attempt at it. It cannot be changed.

    A task is made of a row of the data. With `tasks: {prompt: question}` in the config, and `answer`, which is read
    under this name by default, the row `{"question": "The capital of Peru?", "answer": "Lima", "continent": "America"}`
    becomes:

    >>> from rlft import Task
    >>> task = Task(
    ...     id="f2a9c1d07be34a58",
    ...     environment="capitals.py:Capitals",
    ...     prompt=({"role": "user", "content": "The capital of Peru?"},),
    ...     answer="Lima",
    ...     info={"question": "The capital of Peru?", "answer": "Lima", "continent": "America"},
    ...     split="train",
    ...     group="3d6c0b3c55b1e7a4",
    ... )
    >>> task.text
    'The capital of Peru?'
    >>> task.prompt[0]["content"]
    'The capital of Peru?'
    >>> task.info["continent"]
    'America'
    """

    id: str
    """The column that `tasks.id` names, else 16 hexadecimal digits made of prompt, answer and environment."""
    environment: str
    """The environment's name in the config, such as `capitals.py:Capitals`."""
    prompt: tuple[Message, ...]
    """A tuple of messages, at least one; a prompt that is text in the data is one message of role `user`. `text` is
    its text. What `context` adds, the system prompt, is not in it."""
    answer: Any
    """The ground truth: the JSON value of the column that `tasks.answer` names, `None` where there is none."""
    info: dict[str, Any]
    """The whole row, {column: JSON value}, with the columns of prompt, answer, id, group and split. An object in the
    column `info` is spread among them. Of a generator of reasoning-gym: `generator`, `generator_kwargs`, `seed`,
    `index` and the row as `entry`. The model sees nothing of it but what the environment's own code shows."""
    split: Split
    """`train`, `validation`, `gate`, `test` or `off_distribution`."""
    group: str
    """Tasks of one group never stand in different splits: the column that `tasks.group` names, else the prompt's
    hash."""

    @property
    def text(self) -> str:
        """The prompt's text: the content of the last message of role `user`, of the last message if none is."""
        return next((m["content"] for m in reversed(self.prompt) if m["role"] == "user"), self.prompt[-1]["content"])


@dataclass(frozen=True, slots=True, eq=False)
class Rollout:
    """A recorded attempt at a task, exactly as it was sampled. The arrays have one entry per token, prompt included.

    `rlft environments check` and scripted conversations make rollouts too; these have messages and no tokens.

    >>> import rlft
    >>> from rlft.harness.scripted import Part, as_script, play_scripts
    >>> class Echo(rlft.BaseEnv):
    ...     system_prompt = "Say it again."
    >>> prompt = ({"role": "user", "content": "Lima"},)
    >>> task = rlft.Task(id="1", environment="", prompt=prompt, answer="Lima", info={}, split="train", group="1")
    >>> (rollout,) = play_scripts([Part("try-1", task, as_script("Lima"))], Echo())
    >>> [message["role"] for message in rollout.messages]
    ['system', 'user', 'assistant']
    >>> rollout.turns, rollout.error
    (1, None)
    """

    rollout_id: str
    """Its name, unlike that of every other rollout of a run."""
    task_id: str
    """The `id` of its task."""
    sample: int
    """Which attempt at the task in this round it is, from 0."""
    round: int
    """The round of training, from 0."""
    messages: tuple[Message, ...]
    """The conversation, prompt first. It is derived from the tokens and never turned back into tokens."""
    token_ids: NDArray[np.int32]
    """The tokens of the whole conversation, shape (tokens,)."""
    loss_mask: NDArray[np.bool_]
    """True where the model sampled the token, shape (tokens,)."""
    logprobs: NDArray[np.float32]
    """The natural logarithm of a sampled token's probability under the sampling distribution, 0 elsewhere; shape
    (tokens,)."""
    prompt_length: int
    """Tokens of the prompt."""
    turns: int
    """Messages of the assistant."""
    tool_calls: int
    """Calls of tools, with those that failed or could not be read."""
    tool_errors: int
    """Calls that failed: the model was told an error."""
    state: dict[str, Any]
    """What `setup` and the tools left, JSON."""
    stop_reason: StopReason
    """`stop`: it ended, by itself or after its turns; `length`: a limit cut it off; `error`: see `error`."""
    truncated: bool
    """Whether a limit of tokens, context or seconds cut it off."""
    error: Failure | None
    """What failed that is not the model's doing, and where."""
    seconds: float
    """Wall seconds from the beginning of the conversation to its end; 0 where it was scripted."""
    policy: str
    """The identity of the policy that was sampled."""
    sampling: str
    """The settings of the sampling in one line."""
    environment: str
    """The fingerprint of the environment's code and data."""
    seed: int
    """The seed of its first turn."""

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
    """The score of one rollout: what `compute_reward` returned, checked and weighed.

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
    """Whether the total is full."""
    answer: str | None
    """What `final_answer` made of the attempt, for majority votes."""
    error: Failure | None
    """Why there is no score."""
    seconds: float
    """Wall seconds that scoring took."""


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
    """What `compute_reward` is given: the list of messages after the prompt, tool results included.

    It is a list, not a text: `completion.text` is the answer. It also knows its task and how the rollout ended.

    >>> from rlft import Task, Trajectory
    >>> prompt = ({"role": "user", "content": "The capital of Peru?"},)
    >>> task = Task(id="1", environment="", prompt=prompt, answer="Lima", info={}, split="train", group="1")
    >>> call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": {"country": "Peru"}}}
    >>> completion = Trajectory(
    ...     [
    ...         {"role": "assistant", "content": "", "tool_calls": [call]},
    ...         {"role": "tool", "content": "Its capital is Lima.", "name": "look_up", "tool_call_id": "c1"},
    ...         {"role": "assistant", "content": "Lima"},
    ...     ],
    ...     task=task,
    ...     state={"read": ["Peru"]},
    ... )
    >>> completion.text == completion.task.answer
    True
    >>> [message["content"] for message in completion if message["role"] == "tool"]
    ['Its capital is Lima.']
    >>> completion.state["read"], completion.truncated
    (['Peru'], False)
    """

    task: Task
    """The task that it answers."""
    state: dict[str, Any]
    """What `setup` and the tools left in the rollout's state, JSON; empty where there is none."""
    truncated: bool
    """Whether a limit of tokens, context or seconds cut the rollout off."""

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
