"""Graders that ask others: a function of the user's, and a judge, with a question in words or to compare attempts.

The idea of the comparison is RULER's (relative universal LLM-elicited rewards, OpenPipe): to say which of several
attempts is better is easier than to say how good one is, and GRPO looks at nothing but the differences within a group.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import random
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from rlft.environments.workers.threads import in_thread
from rlft.errors import RewardError
from rlft.rewards.specification.grader import Answer, Attempt, Grader, Question, Verdict
from rlft.rewards.specification.reading import Read, Template, filled, said, value_read
from rlft.types import Message


class Function(Grader):
    """A Python function of yours scores the value: `f(value, item) -> float`. It runs in the process of the reward."""

    bounded: ClassVar[bool] = False

    type: Literal["function"]
    read: Read | None = Field(default=None, description="What the function gets. null means the whole last message.")
    function: str = Field(description="The function, as `package.module:function` or `path/to/file.py:function`.")

    @field_validator("function")
    @classmethod
    def _names_a_function(cls, name: str) -> str:
        place, _, attribute = name.rpartition(":")
        if not place or not attribute.isidentifier():
            raise ValueError(f"{name!r:.80} names no function; write my_rewards.py:f or package.module:f")
        return name

    def functions(self) -> tuple[str, ...]:
        """Return the function."""
        return (self.function,)

    def says(self) -> str:
        """Return what is checked, in words."""
        return f"the function {self.function} gives {said(self.read)} a score"

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return what the function returns. Raises what it raises, and TypeError for what is no number."""
        value, function = value_read(self.read, attempt), attempt.helpers.functions[self.function]
        # Copies, as what the function changes must not reach the task or the next grader.
        given, item = copy.deepcopy(value), copy.deepcopy(dict(attempt.item))
        score = await in_thread(lambda: function(given, item))
        if inspect.isawaitable(score):
            score = await score
        if not isinstance(score, Real):
            raise TypeError(f"{self.function} returned {type(score).__name__} {score!r:.80}, not a number")
        return Verdict(float(score), f"{self.function} returned {float(score):g}")


class Asked(Grader):
    """A judge answers a question about the attempt, from 0 (no) to 1 (yes). Only for what no other grader decides."""

    needs_judge: ClassVar[bool] = True

    type: Literal["judge"]
    question: Template = Field(
        min_length=1, description="The question; a template. The judge reads the attempt beside it, as data."
    )

    def says(self) -> str:
        """Return what is checked, in words."""
        return f"a judge says yes to: {self.question}"

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return the judge's score. Raises what the judge raises."""
        answer = await _asked(attempt, Question(filled(self.question, attempt), (attempt.text,)))
        return Verdict(answer.scores[0], answer.why or "the judge says so")


async def _asked(attempt: Attempt, question: Question) -> Answer:
    assert attempt.helpers.judge is not None, "an environment without a judge is not made for such a criterion"
    return await attempt.helpers.judge.ask(question)


_QUESTION = """Compare the attempts at this task with each other:

{{item.prompt}}

Give each a score. One that reaches what the task asks for has a clearly higher score than one that does not, however \
well the latter is written. Among those that reach it, one that gets there with less has a slightly higher score. \
Attempts that are equally good have equal scores."""


class Ruler(Grader):
    """A judge compares all attempts at a task with each other, in one question, and scores each from 0 to 1 (RULER)."""

    compares: ClassVar[bool] = True
    needs_judge: ClassVar[bool] = True

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

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return the score of the attempt among its peers; one without any is scored alone.

        Raises what the judge raises, which is the same for all attempts of the group, and RewardError for a group that
        is too long.
        """
        group = [list(map(_line, messages)) for messages in attempt.peers or (attempt.messages,)]
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
        asked = filled(self.question, attempt)
        answer = await _asked(attempt, Question(asked, tuple(texts), shared=beginning))
        mine = _text(list(map(_line, attempt.messages))[count:], is_plain=is_plain)
        return Verdict(answer.scores[texts.index(mine)], answer.why or "the judge says so")


def shared_lines(group: Sequence[Sequence[object]]) -> int:
    """Return with how many messages all attempts of a group begin.

    The last message of an attempt is never among them, so that something is left to be compared.
    """
    most, count = min(map(len, group)) - 1, 0
    while count < most and all(lines[count] == group[0][count] for lines in group):
        count += 1
    return count


def _line(message: Message) -> dict[str, Any]:
    """Return what the judge reads of a message. Ids of calls are left out, as they differ where all else is same."""
    line: dict[str, Any] = {"role": message["role"], "content": message["content"]}
    if calls := [call["function"] for call in message.get("tool_calls", ())]:
        line["tool_calls"] = [{"name": each["name"], "arguments": each["arguments"]} for each in calls]
    if unread := [call["text"] for call in message.get("invalid_tool_calls", ())]:
        line["invalid_tool_calls"] = unread
    return line


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
