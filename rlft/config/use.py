"""The section `tasks.use` of a config: tasks that come from what people asked a served model."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rlft.config.bounds import MOST
from rlft.config.names import FolderName, Text
from rlft.config.section import Section
from rlft.privacy import PERSONAL, Personal

Rating = Annotated[int, Field(ge=-(10**9), le=10**9)] | Annotated[float, Field(ge=-1e9, le=1e9)]
LONGEST_DAYS = 36_500.0
"""A hundred years; MLflow has not been there for as long."""


class UseConfig(Section):
    """Tasks from use: traces of MLflow, which join `train` and `validation` and never a split that decides
    ([how](use.md))."""

    experiment: FolderName = Field(
        description="Name of the MLflow experiment that holds the traces, such as NAME-served, which `rlft serve "
        "--log-conversations` fills."
    )
    tags: dict[str, str] = Field(
        default={},
        description="Tags, with their values, that a trace must have, such as {rlft.version: '3'}.",
    )
    since: Text | None = Field(
        default=None, description="Only what was asked at this time or later: ISO 8601, without a zone in UTC."
    )
    until: Text | None = Field(default=None, description="Only what was asked before this time, as `since`.")
    days: float | None = Field(
        default=None, gt=0, le=LONGEST_DAYS, description="Only what was asked in the last so many days."
    )
    feedback: dict[str, bool | Rating | str] = Field(
        default={},
        description="Feedback, with its value, that a person must have given to a trace, such as {correct: false} for "
        "the answers that were wrong.",
    )
    prompt: Text | None = Field(
        default=None,
        description="Field of the inputs that holds the prompt (text or messages). null means the first of `messages`, "
        "`prompt`, `question`, `text`, `input`, `query` and `inputs` that they have.",
    )
    expectation: Text = Field(
        default="expected_response", description="Name of the expectation that holds the right answer."
    )
    correction: Text = Field(
        default="correction", description="Name of the feedback in which a person writes the right answer."
    )
    approval: Text | None = Field(
        default=None,
        description="Name of the feedback by which a person says that the answer was right (true, or `yes`): the "
        "answer that was given is then gold. null means that no answer of a model is gold.",
    )
    gold: Literal["required", "optional", "none"] = Field(
        default="required",
        description="required leaves out what nobody gave the right answer of; optional takes it without an answer; "
        "none takes all without answers, for rewards that need none.",
    )
    mask: list[Personal] = Field(
        default=list(PERSONAL),
        max_length=len(PERSONAL),
        description="Kinds of personal data that are masked in prompts and answers before anything is stored. [] means "
        "none.",
    )
    strata: Text | None = Field(
        default=None,
        description="Tag, or field of the inputs, by whose values tasks are drawn evenly where not all may be taken. "
        "null means by nothing.",
    )
    strata_values: list[Text] | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="The values of `strata` that count each by itself; all others are one stratum, `(other)`. null "
        "means all that occur, which whoever can ask the model can invent.",
    )
    most: int | None = Field(default=None, ge=1, le=MOST, description="At most this many tasks are taken.")
    max_share: float = Field(
        default=0.5,
        gt=0,
        le=0.9,
        description="At most this share of the `train` tasks of a run is from use, and of its `validation` tasks.",
    )
    validation_share: float = Field(
        default=0.1,
        ge=0,
        le=0.5,
        description="Share of what people ask that belongs to `validation`, for good: a hash of the question decides.",
    )
    fresh: bool = Field(
        default=False, description="Leave out what the champion was trained on, as far as its run has noted it."
    )

    def period(self, now: datetime) -> tuple[datetime | None, datetime | None]:
        """Return from when and until when something counts that was asked, the end left out; `None` is no bound."""
        if self.days is not None:
            return datetime.fromtimestamp(now.timestamp() - self.days * 86_400, UTC), None
        return _time(self.since, "since"), _time(self.until, "until")

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        if self.strata_values is not None and self.strata is None:
            raise ValueError(
                "strata_values are values of a tag or field; name it in `strata`, or remove `strata_values`"
            )
        if self.gold == "none" and self.approval:
            raise ValueError("gold is none, so no answer is approved; remove `approval`, or set gold to optional")
        return self

    @model_validator(mode="after")
    def _names_a_period(self) -> Self:
        if self.days is not None and (self.since or self.until):
            raise ValueError("`days` is a period of its own; remove it, or `since` and `until`")
        start, end = self.period(datetime.now(UTC))
        if start and end and start >= end:
            raise ValueError(f"since {self.since} is not before until {self.until}; nothing is between them")
        return self


def _time(text: str | None, setting: str) -> datetime | None:
    """Return the time that a setting names. Raises ValueError."""
    if text is None:
        return None
    try:
        read = datetime.fromisoformat(text)
    except ValueError as cause:
        raise ValueError(
            f"{setting}: {text!r:.80} is no time; write 2026-11-01 or 2026-11-01T08:00:00+01:00"
        ) from cause
    return read if read.tzinfo else read.replace(tzinfo=UTC)
