"""What a grader is, and what it grades: an attempt, the task's row, and what it needs for more than a look."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, get_args

from rlft.rewards.graders.json_values import holds_json_object, read_json_object
from rlft.rewards.specification.judge import Judge, Piece
from rlft.types import Message, Task
from rlft.types.thinking import answer_of


class Unread(Exception):
    """What a criterion asks for is not in the attempt; the text says why. The criterion is not met then."""


class Unmeasured(Unread):
    """What an attempt says cannot be measured, as it is too long or there more than once. It counts as the worst.

    That is the lowest score of a criterion, and the highest one of a penalty, so that none is evaded by it.
    """


@dataclass(frozen=True, slots=True)
class Verdict:
    """A grader's score of an attempt, and why, in words."""

    score: float
    why: str


@dataclass(frozen=True, slots=True)
class Helpers:
    """What graders need beside the attempt: a judge, and the user's functions by name."""

    judge: Judge | None = None
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Attempt:
    """What the model said after the prompt, and `item`, the task's row as templates see it."""

    messages: Sequence[Message]
    item: Mapping[str, Any]
    helpers: Helpers = field(default_factory=Helpers)
    peers: Sequence[Sequence[Message]] = ()
    """The attempts of the group, this one among them, where a criterion compares them; else nothing."""
    is_penalised: bool = False
    """Whether the criterion is a penalty: then texts that only look like what it is about are taken for that."""

    @cached_property
    def text(self) -> str:
        """The answer in the last assistant message, or an empty text."""
        return answer_of(self.messages)

    @cached_property
    def json_object(self) -> dict[str, Any] | None:
        """The one JSON object in the text, as `rlft.rewards.graders.json_values` reads it."""
        return read_json_object(self.text)

    @cached_property
    def calls(self) -> list[dict[str, Any]]:
        """All tool calls, in order, as {name, arguments}."""
        said = [call for m in self.messages if m["role"] == "assistant" for call in m.get("tool_calls") or ()]
        return [{"name": c["function"]["name"], "arguments": c["function"]["arguments"]} for c in said]


def no_object(attempt: Attempt, why: str) -> Unread:
    """Return that an attempt is not one JSON object; where it has several or a broken one, a penalty is not evaded."""
    return Unmeasured(why) if attempt.is_penalised and holds_json_object(attempt.text) else Unread(why)


def item_of(task: Task, answer: Any = None) -> dict[str, Any]:
    """Return a task as templates see it: its columns, and under `prompt` and `answer` what the task has as these.

    Without an answer there is no `answer`, unless the row has a column of this name.
    """
    known = task.answer if answer is None else answer
    return {**task.info, "prompt": task.text} | ({} if known is None else {"answer": known})


FIELDS = "docs/guide/graders.md"
"""The page with all fields of specifications and graders."""


class Grader(Piece):
    """Decides about one attempt. Scores lie in [0, 1] unless a grader says otherwise."""

    bounded: ClassVar[bool] = True
    """Whether scores lie in [0, 1] by themselves."""
    libraries: ClassVar[tuple[str, ...]] = ()
    """The distributions whose versions may change its scores."""
    needs_judge: ClassVar[bool] = False
    """Whether it asks a judge."""
    compares: ClassVar[bool] = False
    """Whether it compares the attempts at a task with each other."""

    def says(self) -> str:
        """Return what is checked, in words that go on from “It is checked whether …”."""
        raise NotImplementedError

    async def grade(self, attempt: Attempt) -> Verdict:
        """Score an attempt. Raises `rlft.rewards.specification.grader.Unread` where it lacks what is looked at."""
        raise NotImplementedError

    @classmethod
    def kind(cls) -> str:
        """Return the one value of its field `type`, by which it is chosen; empty for a class without one."""
        return "".join(get_args(cls.model_fields["type"].annotation)) if "type" in cls.model_fields else ""

    def functions(self) -> tuple[str, ...]:
        """Return the names of the user's functions that it calls: `path/to/file.py:name` or `package.module:name`."""
        return ()

    def unread(self) -> tuple[str, ...]:
        """Return the fields whose templates are not looked at, for what other fields say."""
        return ()


def met(holds: Any, right: str, wrong: str) -> Verdict:
    """Return 1 and what is right, or 0 and what is wrong."""
    return Verdict(1.0, right) if holds else Verdict(0.0, wrong)


def short(text: str) -> str:
    """Return a text as it is shown in a reason: in quotes, on one line, and not longer than 60 characters."""
    line = " ".join(text[:500].split())
    return f"“{line}”" if len(line) <= 60 else f"“{line[:57]}…”"
