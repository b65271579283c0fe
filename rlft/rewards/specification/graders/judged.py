"""Graders that ask a judge: a question in words, OpenAI's `score_model` and `label_model`, a comparison of attempts.

The idea of the comparison is RULER's (relative universal LLM-elicited rewards, OpenPipe): to say which of several
attempts is better is easier than to say how good one is, and GRPO looks at nothing but the differences within a group.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from rlft.errors import RewardError
from rlft.rewards.specification.grader import Attempt, Grader, Verdict
from rlft.rewards.specification.judge import Answer, Piece, Question
from rlft.rewards.specification.reading import Template, filled
from rlft.types import Message


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


_QUESTION = """Compare the attempts at this task with each other:

{{item.prompt}}

Give each a score. One that reaches what the task asks for has a clearly higher score than one that does not, however \
well the latter is written. Among those that reach it, one that gets there with less has a slightly higher score. \
Attempts that are equally good have equal scores."""


class Ruler(Grader):
    """A judge compares all attempts at a task with each other, in one question, and scores each from 0 to 1 (RULER)."""

    compares: ClassVar[bool] = True

    type: Literal["ruler"]
    question: Template = Field(
        default=_QUESTION, min_length=1, description="What makes one better; a template of the task's row."
    )
    seed: int = Field(
        default=0, ge=0, le=2**31, description="Decides in which order the judge reads the attempts of a group."
    )
    max_characters: int = Field(
        default=100_000,
        ge=1_000,
        le=10_000_000,
        description="The most characters of all attempts of a group together; a group with more is an error, as parts "
        "of it cannot be compared. Four characters are about a token of the judge's context.",
    )

    def says(self) -> str:
        """Return what is checked, in words."""
        return "a judge that compares the attempts at a task gives it a high score"

    def needs_judge(self) -> bool:
        """Return true."""
        return True

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return the score of the attempt among its peers; one without any is scored alone.

        Raises what the judge raises, which is the same for all attempts of the group, and RewardError for a group that
        is too long.
        """
        if attempt.helpers.judge is None:
            raise no_judge()
        group = [_lines(messages) for messages in attempt.peers or (attempt.messages,)]
        count = shared_lines(group)
        is_plain = all(len(lines) == count + 1 and lines[-1].keys() == {"role", "content"} for lines in group)
        texts = sorted({_text(lines[count:], is_plain=is_plain) for lines in group})
        _shuffle(texts, self.seed)
        beginning = _text(group[0][:count], is_plain=False)
        if (size := len(beginning) + sum(map(len, texts))) > self.max_characters:
            raise RewardError(
                f"the attempts at this task have {size:,} characters together, more than max_characters="
                f"{self.max_characters:,} of the grader `ruler`; raise it if the judge's context takes them, or lower "
                "rollout.max_completion_length or training.num_generations"
            )
        asked = (("user", filled(self.question, attempt)),)
        question = Question(asked, tuple(texts), shared=beginning, is_ruler=True, askers=len(group))
        answer = await attempt.helpers.judge.ask(question)
        assert answer.scores is not None  # as the question compares
        mine = _text(_lines(attempt.messages)[count:], is_plain=is_plain)
        return Verdict(answer.scores[texts.index(mine)], answer.why or "the judge says so")


def shared_lines(group: Sequence[Sequence[object]]) -> int:
    """Return with how many messages all attempts of a group begin.

    The last message of an attempt is never among them, so that something is left to be compared.
    """
    most, count = min(map(len, group)) - 1, 0
    while count < most and all(lines[count] == group[0][count] for lines in group):
        count += 1
    return count


def _lines(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return what the judge reads of each message. Ids of calls are left out, as they differ where all else is same."""
    return [_line(message) for message in messages]


def _line(message: Message) -> dict[str, Any]:
    said: dict[str, Any] = {"role": message["role"], "content": message["content"]}
    if calls := [call["function"] for call in message.get("tool_calls", ())]:
        said["tool_calls"] = [{"name": each["name"], "arguments": each["arguments"]} for each in calls]
    if unread := [call["text"] for call in message.get("invalid_tool_calls", ())]:
        said["invalid_tool_calls"] = unread
    return said


def _text(lines: Sequence[Mapping[str, Any]], *, is_plain: bool) -> str:
    """Return an attempt as the judge reads it: the text of its one message, or a line of JSON for each message.

    In JSON a text cannot look like a tool's result, or like a call that was made.
    """
    if is_plain:
        return str(lines[0]["content"] or "")
    return "\n".join(json.dumps(each, ensure_ascii=False) for each in lines)


def _shuffle(texts: list[str], seed: int) -> None:
    """Bring texts into an order that they and the seed decide, whatever order they had."""
    digest = hashlib.sha256(json.dumps([seed, texts]).encode()).digest()
    random.Random(int.from_bytes(digest[:8])).shuffle(texts)
