"""What a criterion asks a judge: the protocol between specifications and the judges that answer, and bills of it.

`Piece` is the base of all pieces of a specification, a judge's settings among them. Bills say what judges were asked:
for one score, in whichever thread or task that happens, and for a whole stage.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ClassVar, Literal, ParamSpec, Protocol, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rlft.types import Judging, add_judging


class Piece(BaseModel):
    """Base of all pieces, which takes no unknown keys, converts no types, refuses NaN and infinity, and is frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _is_left_out(value: object) -> bool:
    """Return whether a field says nothing: then it is not in what is stored of a judge behind an endpoint."""
    return value is None


class Prices(Piece):
    """What a judge's tokens cost, in any one currency."""

    input: float = Field(ge=0, le=1e6, description="Money for a million tokens that it reads.")
    output: float = Field(ge=0, le=1e6, description="Money for a million tokens that it writes.")

    def of(self, read: int | None, written: int | None) -> float | None:
        """Return the money for so many tokens; `None` if either number is not known."""
        return None if read is None or written is None else (read * self.input + written * self.output) / 1e6


class JudgeVllm(Piece):
    """How vLLM runs a judge's model beside the policy that is trained."""

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto", description="Data type of weights and computation. `auto` leaves it to vLLM."
    )
    max_model_len: int | None = Field(
        default=None,
        ge=64,
        le=100_000_000,
        description="Most tokens of a question and its answer. null means what the model can read.",
    )
    gpu_memory_utilization: float = Field(
        default=0.3,
        gt=0,
        lt=1,
        description="On a GPU: share of its memory (0 to 1) for the judge's weights and cache. "
        "`rollout.vllm.gpu_memory_utilization` is taken beside it.",
    )
    cache_gib: float = Field(
        default=1.0, gt=0, le=100_000, description="On a CPU: memory for keys and values, in GiB, beside the weights."
    )
    start_seconds: float = Field(
        default=600.0, gt=0, le=86_400, description="Seconds that a start may take, with a download of the model."
    )


class JudgeSettings(Piece):
    """The model that answers questions about attempts: behind an OpenAI-compatible address, or in a vLLM of rlft's."""

    endpoint: str | None = Field(
        default=None,
        max_length=2000,
        description="Address of the server, such as http://127.0.0.1:8000/v1; `/chat/completions` is asked below it. "
        "Either this or `engine` is given.",
    )
    engine: Literal["vllm"] | None = Field(
        default=None,
        exclude_if=_is_left_out,
        description="`vllm`: rlft starts a vLLM with the model on this machine, and ends it with the run.",
    )
    model: str = Field(
        min_length=1,
        max_length=500,
        description="The model's name at the endpoint; with `engine` its name on the hub, or the path of its folder.",
    )
    revision: str | None = Field(
        default=None,
        max_length=200,
        exclude_if=_is_left_out,
        description="With `engine`: commit, tag or branch of a model of the hub. null means its main branch.",
    )
    vllm: JudgeVllm | None = Field(
        default=None, exclude_if=_is_left_out, description="With `engine`: how vLLM runs. null means the defaults."
    )
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

    @model_validator(mode="after")
    def _is_at_one_place(self) -> Self:
        if (self.endpoint is None) == (self.engine is None):
            raise ValueError("write either `endpoint`, the address of a server, or `engine: vllm`, which rlft starts")
        if self.engine is None and (self.revision is not None or self.vllm is not None):
            raise ValueError("`revision` and `vllm` are for `engine: vllm`; an endpoint has its model already")
        if self.engine is not None and self.api_key is not None:
            raise ValueError("`api_key` is for an `endpoint`; rlft makes a key for the vLLM that it starts")
        return self

    @property
    def started(self) -> JudgeVllm:
        """How vLLM runs the model, where rlft starts it."""
        return self.vllm or JudgeVllm()

    @property
    def server_name(self) -> str:
        """What judges have in common that one server answers for, where rlft starts it."""
        how = {"vllm": self.started.model_dump(), "at_once": self.concurrency}
        return json.dumps({**self.server(), **how}, sort_keys=True)

    @property
    def place(self) -> str:
        """Where it answers, for people to read."""
        return "a vLLM of this run" if self.endpoint is None else self.endpoint

    def scoring(self) -> dict[str, Any]:
        """Return what its answers depend on, as JSON, but for the weights of a model that rlft starts."""
        settings = self.model_dump(mode="json", include={"model", "version", "votes", "max_tokens"})
        return {**self.server(), **settings}

    def server(self) -> dict[str, Any]:
        """Return what of it says which server answers, as JSON. Where rlft starts it, equal ones are one server."""
        if self.engine is None:
            return {"endpoint": self.endpoint, "model": self.model}
        own = {"dtype": self.started.dtype, "max_model_len": self.started.max_model_len}
        return {"engine": self.engine, "model": self.model, "revision": self.revision, **own}


@dataclass(frozen=True, slots=True)
class Question:
    """A question about one attempt, or about several side by side; what attempts say is data.

    A judge answers with a number from `least` to `most`, with one of `labels` if there are any, or with a number for
    each attempt if it `is_ruler`.
    """

    messages: Sequence[tuple[str, str]]
    """(role, text), with roles `system`, `user` and `assistant`; templates are filled in already."""
    attempts: tuple[str, ...]
    """What the attempts say, in the order in which the judge reads them."""
    least: float = 0.0
    most: float = 1.0
    labels: tuple[str, ...] = ()
    is_ruler: bool = False
    shared: str = ""
    """What all attempts begin with, shown once."""
    askers: int = 1
    """How often the same is asked, once for each attempt that it decides about; all get the same answer or error."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A judge's answer: a number within the range of the question, one of its labels, or a number for each attempt.

    `why` is its reason.
    """

    score: float | None = None
    label: str | None = None
    why: str = ""
    scores: tuple[float, ...] | None = None


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
