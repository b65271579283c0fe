"""What an attacker knows of a task, and how it says an attempt."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from rlft.audit.attacks.pool import MOST_ANSWERS, Other, Pool
from rlft.audit.attacks.scripts import calls_of, form_of, said_answers, text_of
from rlft.audit.attacks.texts import as_json, plain, program_of
from rlft.contract.tools import ToolSpec
from rlft.graders.numbers import parse_number
from rlft.harness.scripted import Script
from rlft.types import Message, Task, ToolCall


@dataclass(frozen=True)
class Known:
    """What is known of one task: its gold, the gold of a task with another answer, the pool and the tools.

    `own` are the attempts that the environment's `attacks` names. What is derived is computed once, as dozens of
    attackers ask for it; it must not be changed.
    """

    task: Task
    gold: Script | None
    rival: Other | None
    pool: Pool
    tools: Mapping[str, ToolSpec] = field(default_factory=dict)
    own: Mapping[str, Script] = field(default_factory=dict)

    @property
    def other(self) -> Script | None:
        """The gold of another task, or a made-up one."""
        return None if self.rival is None else self.rival.script

    @property
    def other_answer(self) -> str:
        """The other task's answer, or a sentence that is none."""
        return (self.rival.answer if self.rival is not None else "") or "I do not know"

    @cached_property
    def text(self) -> str:
        """What gold says last."""
        return "" if self.gold is None else text_of(self.gold)

    @cached_property
    def form(self) -> tuple[str, str]:
        """What stands before and behind the answer in gold."""
        return form_of(self.text, self.pool.form, self.task.answer)

    @cached_property
    def answer(self) -> str:
        """The answer of gold, without its form."""
        begins, ends = self.form
        return self.text.removeprefix(begins).removesuffix(ends)

    @cached_property
    def number(self) -> Fraction | None:
        """The answer as a number, if it is one."""
        return parse_number(self.answer)

    @cached_property
    def value(self) -> Any:
        """The object or list that gold is as JSON, else `None`."""
        return as_json(self.text)

    @cached_property
    def other_value(self) -> Any:
        """The other task's gold as JSON, else `None`."""
        return None if self.other is None else as_json(text_of(self.other))

    @cached_property
    def program(self) -> str | None:
        """The Python program that gold is, else `None`."""
        return program_of(self.text)

    @cached_property
    def calls(self) -> list[ToolCall]:
        """The tool calls of gold."""
        return [] if self.gold is None else calls_of(self.gold)

    @cached_property
    def text_counts(self) -> bool:
        """Whether gold's answer is handed in by what it says last: the task's answer stands there, and in no call."""
        if not self.calls:
            return True
        said = [plain(each) for each in said_answers(self.task.answer) if plain(each) in plain(self.text)]
        given = plain(json.dumps([call["function"]["arguments"] for call in self.calls], ensure_ascii=False))
        return bool(said) and not any(each in given for each in said)

    @cached_property
    def short(self) -> bool:
        """Whether gold is a short answer in a short form, which is read out of the text or compared with it."""
        is_short = bool(self.answer.strip()) and len(self.answer) <= 80 and sum(map(len, self.form)) <= 60
        return is_short and self.value is None and self.program is None

    @cached_property
    def _plain_text(self) -> str:
        return plain(self.text)

    @cached_property
    def _plain_answer(self) -> str:
        return plain(self.answer)

    def declare(self, answer: str) -> str:
        """Return an answer in gold's form."""
        begins, ends = self.form
        return f"{begins}{answer}{ends}"

    def say(self, text: str) -> Script:
        """Return the script that says a text, behind gold's own calls where it is the text that counts."""
        said = Message(role="assistant", content=text)
        if self.gold is None or not self.calls or not self.text_counts:
            return (said,)
        return (*(message for message in self.gold if message.get("tool_calls")), said)

    def is_gold(self, script: Script) -> bool:
        """Return whether a script is gold, or the same answer written in another way."""
        if script == self.gold:
            return True
        if self.gold is None or _asked(calls_of(script)) != _asked(self.calls):
            return False
        said = text_of(script)
        if self.pool.are_same_items(self.text, said):
            return True
        if self.value is not None:
            return as_json(said) == self.value
        begins, ends = self.form
        number = None if self.number is None else parse_number(said.removeprefix(begins).removesuffix(ends))
        if number is not None and number != self.number:
            return False  # only signs tell 5 from -5, and 1.5 from 15
        return bool(self._plain_text) and plain(said) in (self._plain_text, self._plain_answer)

    def calls_otherwise(self, script: Script) -> bool:
        """Return whether a script calls tools as gold does not, where the answer is handed in by calls."""
        return bool(self.calls) and not self.text_counts and _asked(calls_of(script)) != _asked(self.calls)

    def around(self) -> list[str]:
        """Return answers of other tasks with gold's own in their middle; nothing if there are fewer than two others."""
        pairs = zip(self.pool.answers, self.pool.plain_answers, strict=True)
        found = (each for each, short in pairs if short != self._plain_answer)
        others = list(itertools.islice(found, MOST_ANSWERS - 1))
        middle = (len(others) + 1) // 2
        return [*others[:middle], self.answer, *others[middle:]] if len(others) >= 2 and self.answer else []


def _asked(calls: Sequence[ToolCall]) -> list[Any]:
    """Return names and arguments of calls, whose ids say nothing."""
    return [call["function"] for call in calls]
