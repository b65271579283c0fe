"""Tasks, the set of all tasks of a run with their splits, and messages, in the form that chat templates take."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from typing_extensions import NotRequired, TypedDict  # noqa: UP035 - pydantic refuses typing's before 3.12


class FunctionCall(TypedDict):
    """The function of a tool call: its name and the arguments.

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
    """The name of the call. The message of role `tool` that answers it has it as `tool_call_id`."""
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
    """What the model wrote, with the marks around it; empty for a second error about the same text."""
    error: str
    """What is wrong with it, in a sentence that the model reads."""
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
    """The calls that could not be read. Their text is no part of `content`; the key is absent where there are none."""
    tool_call_id: NotRequired[str]
    """In a tool's message: the call that it answers."""
    name: NotRequired[str]
    """In a tool's message: the tool's name."""
    thinking: NotRequired[str]
    """In an assistant's message as rewards read it: what it thought before `content`; absent where it did not."""
    failed: NotRequired[bool]
    """In a tool's message: `True` where the call failed, and absent elsewhere. The model never reads it, only the
    text."""


Split = Literal["train", "validation", "gate", "test", "off_distribution"]
SPLITS: tuple[Split, ...] = get_args(Split)


@dataclass(frozen=True, slots=True)
class Task:
    """A problem, and what is needed to score an attempt at it. A task cannot be changed.

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
    """The column that `tasks.group` names, else `question_key`. Tasks of a group that the column names are never in
    different splits."""
    question_key: str = ""
    """16 hexadecimal digits of what the row asks: the prompt's column, or the fields that its template names, in one
    Unicode form, without case and white space. By it a task is known again when template or answer have changed."""

    @property
    def text(self) -> str:
        """The text of the prompt: the content of the last message of role `user`, else of the last message."""
        return next((m["content"] for m in reversed(self.prompt) if m["role"] == "user"), self.prompt[-1]["content"])


@dataclass(frozen=True, slots=True)
class TaskSet:
    """The tasks of all splits, a fingerprint of their content, and notes about how they were read."""

    tasks: tuple[Task, ...]
    fingerprint: str
    notes: dict[str, Any] = field(default_factory=dict)

    def split(self, name: Split) -> tuple[Task, ...]:
        """Return the tasks of one split, in their stored order."""
        return tuple(task for task in self.tasks if task.split == name)

    def by_id(self) -> dict[str, Task]:
        """Return {id: task} for all tasks."""
        return {task.id: task for task in self.tasks}


def derive_seed(*parts: object) -> int:
    """Return a 63-bit seed that follows from the parts, such as (config seed, round, task id, sample)."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
