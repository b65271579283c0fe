"""What a grader is, and what it grades: an attempt, the task's row, and what it needs for more than a look.

Beside it stand the protocol between specifications and the judges that answer, and bills of it: for one score, in
whichever thread or task that happens, and for a whole stage. `Piece` is the base of all pieces of a specification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field

from rlft.rewards.graders.json_values import holds_json_object, read_json_object
from rlft.types import Judging, Message, Task, add_judging
from rlft.types.thinking import answer_of


class Piece(BaseModel):
    """Base of all pieces, which takes no unknown keys, converts no types, refuses NaN and infinity, and is frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, hide_input_in_errors=True)


class JudgeSettings(Piece):
    """The model that answers questions about attempts, behind an OpenAI-compatible address."""

    endpoint: str = Field(
        min_length=1,
        max_length=2000,
        description="Address of the server, such as http://127.0.0.1:8000/v1; `/chat/completions` is asked below it.",
    )
    model: str = Field(min_length=1, max_length=500, description="The model's name at the endpoint.")
    api_key: str | None = Field(
        default=None,
        pattern=r"^env:[A-Za-z_][A-Za-z0-9_]*$",
        description="Key of the endpoint, as env:NAME for the environment variable that holds it. null sends none.",
    )
    version: str = Field(
        default="",
        max_length=200,
        description="Which version of the model it is, in your words. It is part of the reward's fingerprint: change "
        "it when the model has changed under its name, and everything is asked again.",
    )
    votes: int = Field(
        default=1,
        ge=1,
        le=25,
        description="How often it is asked. One vote is the likeliest answer; of several the mean or the most frequent "
        "label counts.",
    )
    max_tokens: int = Field(default=512, ge=16, le=100_000, description="The most tokens of an answer.")
    timeout_seconds: float = Field(default=60.0, gt=0, le=86_400, description="Seconds that one request may take.")
    attempts: int = Field(
        default=5, ge=1, le=1000, description="Times that it is asked the same before it is an error."
    )
    concurrency: int = Field(default=8, ge=1, le=1024, description="It gets at most this many requests at a time.")

    def scoring(self) -> dict[str, Any]:
        """Return what its answers depend on, as JSON."""
        return self.model_dump(mode="json", include={"endpoint", "model", "version", "votes", "max_tokens"})


@dataclass(frozen=True, slots=True)
class Question:
    """A question about one attempt, or about several side by side; what attempts say is data.

    A judge answers with a number from 0 to 1 for each attempt.
    """

    text: str
    """What is asked; templates are filled in already."""
    attempts: tuple[str, ...]
    """What the attempts say, in the order in which the judge reads them."""
    shared: str = ""
    """What all attempts begin with, shown once."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A judge's answer: a number for each attempt, and its reason."""

    scores: tuple[float, ...]
    why: str = ""


class Judge(Protocol):
    """Answers questions about attempts. What fails, refuses or cannot be read raises, and is never a 0."""

    async def ask(self, question: Question) -> Answer:
        """Return the answer to a question, in the form that it asks for. Raises where there is none."""
        ...


class Billed(Protocol):
    """A report that says what judges were asked for it."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def judging(self) -> Judging | None:
        """What judges were asked; `None` if none was."""
        ...


Arguments = ParamSpec("Arguments")
Made = TypeVar("Made", bound=Billed)


Bill = list[Judging]
"""What judges were asked for one score, or for a stage; any number of threads may add to it."""
_OPEN: ContextVar[Bill | None] = ContextVar("rlft_bill", default=None)


def pay_by(bill: Bill) -> None:
    """Let all that judges are asked from here on, in this task and the threads that it starts, go on this bill.

    A score has a bill of its own, whose total is charged to that of the stage when all scores of a call are made.
    """
    _OPEN.set(bill)


def charge(judging: Judging | None) -> None:
    """Put what a judge was asked on the bill of what is being made, if it was; outside of one nobody counts it."""
    if judging is not None and (bill := _OPEN.get()) is not None:
        bill.append(judging)


def billed(stage: Callable[Arguments, Made]) -> Callable[Arguments, Made]:
    """Return the function of a stage, whose report also says what judges were asked for all that it has scored."""

    @wraps(stage)
    def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Made:
        bill, before = Bill(), _OPEN.get()
        pay_by(bill)
        try:
            return replace(stage(*args, **kwargs), judging=add_judging(bill))
        finally:
            _OPEN.set(before)

    return called


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
    """Whether the criterion is a penalty, which is not evaded by what cannot be measured."""

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


def met(holds: Any, right: str, wrong: str) -> Verdict:
    """Return 1 and what is right, or 0 and what is wrong."""
    return Verdict(1.0, right) if holds else Verdict(0.0, wrong)


def short(text: str) -> str:
    """Return a text as it is shown in a reason: in quotes, on one line, and not longer than 60 characters."""
    line = " ".join(text[:500].split())
    return f"“{line}”" if len(line) <= 60 else f"“{line[:57]}…”"
