"""Pairs of attempts of which people said which is the better one, and a judge that is shown both, in either order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rlft.errors import ConfigError
from rlft.files import each_key_once, why_no_file
from rlft.rewards.specification.grader import Attempt
from rlft.rewards.specification.graders.judged import Asked
from rlft.rewards.specification.judge import Judge, Question
from rlft.rewards.specification.model import Specification
from rlft.rewards.specification.reading import filled
from rlft.types import Message, Task

PAIR = """Which of the two attempts at this task is the better one?

{prompt}

What makes an attempt good:
{questions}"""
_FIX = 'write JSON Lines such as {"id": "a", "input": "...", "output_1": "...", "output_2": "...", "label": 1}'


class Pair(BaseModel):
    """Two attempts at one task, and which of them is the better one. Other fields are columns of the task's row."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    id: str
    input: str = Field(description="The prompt.")
    output_1: str
    output_2: str
    label: int = Field(ge=1, le=2, description="Which of them is the better one.")
    subset: str = ""
    group: str = Field(default="", description="Pairs of one group are not independent. Empty: a group of its own.")
    item: dict[str, Any] = Field(default={}, description="The task's row, whose columns may have any name.")

    @property
    def outputs(self) -> tuple[str, str]:
        """Both attempts."""
        return self.output_1, self.output_2

    def task(self) -> Task:
        """Return what both attempts answer, as a task with `item` and the other fields as its columns."""
        prompt = (Message(role="user", content=self.input),)
        info = {**(self.model_extra or {}), "input": self.input, "subset": self.subset, **self.item}
        return Task(self.id, "", prompt, info.get("answer"), info, "test", self.group or self.id)


def read_pairs(path: Path) -> list[Pair]:
    """Read pairs from a file of JSON Lines. Raises ConfigError, which names the line, for what is none."""
    if problem := why_no_file(path):
        raise ConfigError(problem, where=f"--pairs {path}", fix=_FIX)
    pairs = dict[str, Pair]()
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, ValueError) as cause:
        raise ConfigError(f"it is not readable: {cause}", where=f"--pairs {path}", fix=_FIX) from cause
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            pair = Pair.model_validate(json.loads(line, object_pairs_hook=each_key_once))
        except ValidationError as wrong:
            first = wrong.errors()[0]
            problem = f"{'.'.join(map(str, first['loc']))}: {first['msg'].removeprefix('Value error, ')}"
            raise ConfigError(problem, where=f"--pairs {path}, line {number}", fix=_FIX) from None
        except (ValueError, RecursionError) as cause:
            raise ConfigError(f"it is no JSON: {cause}", where=f"--pairs {path}, line {number}", fix=_FIX) from None
        if pair.id in pairs:
            raise ConfigError(
                f"the id {pair.id!r} is there twice", where=f"--pairs {path}, line {number}", fix="give each its own"
            )
        pairs[pair.id] = pair
    if not pairs:
        raise ConfigError("there is no pair in it", where=f"--pairs {path}", fix=_FIX)
    return list(pairs.values())


def questions_of(specification: Specification, item: Mapping[str, object]) -> list[str]:
    """Return what the judge is asked about an attempt at a task, without what OpenAI's graders write themselves."""
    seen = Attempt((), item)
    return [filled(each.question, seen) for each in specification.graders() if isinstance(each, Asked)]


async def better_of(judge: Judge, prompt: str, questions: list[str], first: str, second: str) -> Literal[1, 2]:
    """Return which attempt the judge takes for the better one, by the place in which it was shown.

    Raises what the judge raises.
    """
    text = PAIR.format(prompt=prompt, questions="\n".join(f"- {each}" for each in questions))
    answer = await judge.ask(Question((("user", text),), (first, second), labels=("1", "2")))
    return 1 if answer.label == "1" else 2
