"""What a criterion asks a judge: the protocol between specifications and the judges that answer, and bills of it.

`Piece` is the base of all pieces of a specification, a judge's settings among them. Bills say what judges were asked:
for one score, in whichever thread or task that happens, and for a whole stage.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from rlft.types import Judging, add_judging


class Piece(BaseModel):
    """Base of all pieces, which takes no unknown keys, converts no types, refuses NaN and infinity, and is frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Prices(Piece):
    """What a judge's tokens cost, in any one currency."""

    input: float = Field(ge=0, le=1e6, description="Money for a million tokens that it reads.")
    output: float = Field(ge=0, le=1e6, description="Money for a million tokens that it writes.")

    def of(self, read: int | None, written: int | None) -> float | None:
        """Return the money for so many tokens; `None` if either number is not known."""
        return None if read is None or written is None else (read * self.input + written * self.output) / 1e6


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
    prices: Prices | None = Field(default=None, description="What its tokens cost. null claims no money.")
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


class Bill:
    """Adds up what judges were asked for one score, from any number of threads; `total` is `None` before the first."""

    def __init__(self) -> None:
        self.total: Judging | None = None
        self._lock = threading.Lock()

    def add(self, judging: Judging) -> None:
        """Add what a judge was asked."""
        with self._lock:
            self.total = add_judging((self.total, judging))


_OPEN: ContextVar[Bill | None] = ContextVar("rlft_bill", default=None)


def pay_by(bill: Bill) -> None:
    """Let all that judges are asked from here on, in this task and the threads that it starts, go on this bill.

    A score has a bill of its own, whose total is charged to that of the stage when all scores of a call are made.
    """
    _OPEN.set(bill)


def charge(judging: Judging | None) -> None:
    """Put what a judge was asked on the bill of what is being made, if it was; outside of one nobody counts it."""
    if judging is not None and (bill := _OPEN.get()) is not None:
        bill.add(judging)


def billed(stage: Callable[Arguments, Made]) -> Callable[Arguments, Made]:
    """Return the function of a stage, whose report also says what judges were asked for all that it has scored."""

    @wraps(stage)
    def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Made:
        bill, before = Bill(), _OPEN.get()
        pay_by(bill)
        try:
            return replace(stage(*args, **kwargs), judging=bill.total)
        finally:
            _OPEN.set(before)

    return called
