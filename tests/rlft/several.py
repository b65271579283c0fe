"""Two environments that differ in everything: what they show, their tools, and what they pay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import rlft
from rlft.environments.contract.several import Several
from rlft.types import Split, Task
from tests.rlft.attempts import make_task


class Own(rlft.BaseEnv):
    """Remembers the tasks that it sees, and refuses another environment's."""

    name = ""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def see(self, task: Task) -> None:
        """Note a task."""
        assert task.environment == self.name, f"{self.name} sees a task of {task.environment}"
        self.seen.append(task.id)


class Sums(Own):
    """Pays 1 for the right number, and -1 for a question mark."""

    name = "sums"

    def context(self, task: Task) -> str:
        """Ask for a number."""
        self.see(task)
        return "Add."

    @rlft.reward(weight=2.0, minimum=-1.0)
    def right(self, text: str, ground_truth: Any, task: Task) -> float:
        """Return whether the number is right."""
        self.see(task)
        return -1.0 if text == "?" else float(text == ground_truth)


class Words(Own):
    """Pays for length, up to 10; a tool spells words."""

    name = "words"
    max_turns = 3

    @rlft.tool
    def spell(self, word: str) -> str:
        """Spell a word."""
        return "-".join(word)

    @rlft.reward(minimum=0.0)
    def right(self, text: str, task: Task) -> float:
        """Return a tenth for each character."""
        self.see(task)
        return min(len(text) / 10, 1.0)

    def reward_maxima(self) -> dict[str, float]:
        """Return the most that a part pays."""
        return {"right": 1.0}

    def gold_completion(self, task: Task) -> str:
        """Return ten characters."""
        self.see(task)
        return "abcdefghij"

    def final_answer(self, completion: Any) -> str | None:
        """Return the first character."""
        return completion.text[:1] or None


def of(name: str, number: int, split: Split = "train") -> Task:
    """A task of one of them."""
    task = make_task(f"{name}/{number}", f"{number}+1= ({name})", str(number + 1))
    return replace(task, environment=name, split=split, group=f"{name}/{number}")


def make_several() -> Several:
    """Both of them."""
    return Several({"sums": Sums(), "words": Words()})
