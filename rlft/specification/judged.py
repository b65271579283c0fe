"""Graders that ask a judge: a question in words, and OpenAI's `score_model` and `label_model`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from rlft.errors import RewardError
from rlft.specification.attempt import Attempt, Verdict
from rlft.specification.grader import Grader
from rlft.specification.judge import Answer, Question
from rlft.specification.piece import Piece
from rlft.specification.templates import Template, filled


class Asked(Grader):
    """A judge answers a question about the attempt, from 0 (no) to 1 (yes). Only for what no other grader decides."""

    type: Literal["judge"]
    question: Template = Field(
        min_length=1, description="The question; a template. The judge reads the attempt beside it, as data."
    )

    def says(self) -> str:
        """Return what is checked, in words."""
        return f"a judge says yes to: {self.question}"

    def needs_judge(self) -> bool:
        """Return true."""
        return True

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return the judge's score. Raises what the judge raises."""
        return await _scored(attempt, Question((("user", filled(self.question, attempt)),), (attempt.text,)))


class Content(Piece):
    """A part of a message that is text."""

    type: Literal["input_text", "output_text"]
    text: Template


class Input(Piece):
    """One message of OpenAI's graders; other content than text is refused."""

    role: Literal["user", "assistant", "system", "developer"]
    content: Template | Content | list[Content]
    type: Literal["message"] | None = None

    def filled(self, attempt: Attempt) -> tuple[str, str]:
        """Return (role, text) with places filled in."""
        parts = self.content if isinstance(self.content, list) else [self.content]
        texts = [filled(part if isinstance(part, str) else part.text, attempt) for part in parts]
        return {"developer": "system"}.get(self.role, self.role), "\n".join(texts)


class ScoreModel(Grader):
    """OpenAI's `score_model`: a model gives the attempt a number within a range."""

    bounded: ClassVar[bool] = False

    type: Literal["score_model"]
    name: str = Field(default="", description="A name, which is not read.")
    input: list[Input] = Field(min_length=1, description="Messages, with templates.")
    model: str = Field(description="The model that it was written for.")
    range: Annotated[list[float], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="The lowest and the highest number. null means 0 to 1."
    )
    sampling_params: dict[str, Any] | None = Field(default=None, description="Left to the judge.")

    @model_validator(mode="after")
    def _has_a_range(self) -> Self:
        if self.range is not None and self.range[0] >= self.range[1]:
            raise ValueError(f"range {self.range} is empty; write the lower number first")
        return self

    def says(self) -> str:
        """Return what is checked, in words."""
        low, high = self.range or (0, 1)
        return f"a model gives it a high number, from {low:g} to {high:g}"

    def needs_judge(self) -> bool:
        """Return true."""
        return True

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return the number. Raises what the judge raises."""
        low, high = self.range or (0.0, 1.0)
        return await _scored(attempt, Question(_messages(self.input, attempt), (attempt.text,), low, high))


class LabelModel(Grader):
    """OpenAI's `label_model`: a model gives the attempt one of several labels, some of which pass."""

    type: Literal["label_model"]
    name: str = Field(default="", description="A name, which is not read.")
    input: list[Input] = Field(min_length=1, description="Messages, with templates.")
    model: str = Field(description="The model that it was written for.")
    labels: list[str] = Field(min_length=1, description="All labels.")
    passing_labels: list[str] = Field(min_length=1, description="Those that score 1.")

    @model_validator(mode="after")
    def _passes_what_there_is(self) -> Self:
        if wrong := [each for each in self.passing_labels if each not in self.labels]:
            raise ValueError(f"passing_labels names {wrong[0]!r}, and the labels are {', '.join(self.labels)}")
        return self

    def says(self) -> str:
        """Return what is checked, in words."""
        return f"a model labels it {' or '.join(self.passing_labels)}, of {', '.join(self.labels)}"

    def needs_judge(self) -> bool:
        """Return true."""
        return True

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return 1 for a passing label, else 0. Raises what the judge raises."""
        question = Question(_messages(self.input, attempt), (attempt.text,), labels=tuple(self.labels))
        answer = await _ask(attempt, question)
        return Verdict(float(answer.label in self.passing_labels), f"its label is {answer.label}")


def no_judge() -> RewardError:
    """Return the error that a criterion asks a judge and there is none."""
    return RewardError(
        "a criterion asks a judge, and there is none",
        where="reward.spec",
        fix="name one under `judge` (model, and endpoint or engine), or let another grader decide: most of what can be "
        "said plainly can be checked",
    )


def _messages(given: Sequence[Input], attempt: Attempt) -> tuple[tuple[str, str], ...]:
    return tuple(each.filled(attempt) for each in given)


async def _ask(attempt: Attempt, question: Question) -> Answer:
    if attempt.helpers.judge is None:
        raise no_judge()
    return await attempt.helpers.judge.ask(question)


async def _scored(attempt: Attempt, question: Question) -> Verdict:
    """Return the judge's number, and its reason."""
    answer = await _ask(attempt, question)
    assert answer.score is not None  # as the question has no labels
    return Verdict(answer.score, answer.why or "the judge says so")
