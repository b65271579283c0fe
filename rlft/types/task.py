"""Tasks, and the set of all tasks of a run with their splits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from rlft.types.message import Message

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
    Unicode form, without case and white space. By it a task is known again when template or answer have changed. Empty
    in tasks that an older version has stored."""

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
