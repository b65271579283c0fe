"""Honest rewards with several right answers, answers in any order, and small parts, penalties and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rlft
from benchmarks.audit.cases import Case, make_tasks
from benchmarks.audit.families.tools import calling, saying
from rlft.environments.contract.base import BaseEnv
from rlft.types import Message, Task, Trajectory


class Lists(BaseEnv):
    """Compares lists in any order; what is missing and what is too much cost the same."""

    @rlft.reward(minimum=0.0)
    def overlap(self, text: str, ground_truth: list[str]) -> float:
        """Return the items in both lists by the items in either (Jaccard's index)."""
        said = {item.strip().lower() for item in text.split(",")} - {""}
        gold = {item.lower() for item in ground_truth}
        return len(said & gold) / len(said | gold)

    def gold_completion(self, task: Task) -> str:
        """Return the list as text."""
        return ", ".join(task.answer)


class OneOfMany(BaseEnv):
    """Takes one of all right answers."""

    @rlft.reward(minimum=0.0)
    def right(self, text: str, ground_truth: list[str]) -> float:
        """Return 1 if the answer is one of those that are right, and that alone."""
        return float(text.strip().lower().removesuffix(".") in ground_truth)

    def gold_completion(self, task: Task) -> str:
        """Return the first of the right answers."""
        return task.answer[0]


class Stock(BaseEnv):
    """Asks how many of something are left, which a tool knows."""

    async def setup(self, task: Task) -> dict[str, Any]:
        """Return the shelves."""
        return {"shelves": task.info["shelves"]}

    @rlft.tool
    def count(self, item: str, state: dict[str, Any]) -> int:
        """Say how many of an item are on the shelves.

        Args:
            item: Its name, in the singular.
        """
        return state["shelves"][item]

    @rlft.reward(minimum=0.0)
    def correct(self, text: str, ground_truth: str) -> float:
        """Return 1 if the answer is the number, in digits."""
        return float(text.strip().removesuffix(".") == ground_truth)

    @rlft.reward(weight=0.1, minimum=0.0)
    def bare(self, text: str) -> float:
        """Return 1 for a number alone."""
        return float(text.strip().isdecimal())

    @rlft.reward(weight=-0.05, minimum=0.0, maximum=10.0)
    def needless_calls(self, completion: Trajectory, task: Task) -> float:
        """Return how many calls were made beyond those that are needed."""
        calls = sum(len(message.get("tool_calls", ())) for message in completion)
        return float(min(10, max(0, calls - len(task.info["asked"]))))

    @rlft.metric
    def looked_up(self, completion: Trajectory) -> float:
        """Return whether any call gave a result."""
        return float(any(message["role"] == "tool" and not message.get("failed") for message in completion))

    def gold_completion(self, task: Task) -> Sequence[Message]:
        """Count what is asked for, and answer with the sum."""
        return [calling(*[("count", {"item": item}) for item in task.info["asked"]]), saying(task.answer)]


LISTS = (
    ("the countries that border Switzerland", ["France", "Germany", "Austria", "Italy", "Liechtenstein"]),
    ("the primes below 12", ["2", "3", "5", "7", "11"]),
    ("the odd numbers below 8", ["1", "3", "5", "7"]),
    ("the planets without a moon", ["Mercury", "Venus"]),
    ("the strings of a violin", ["G", "D", "A", "E"]),
    ("the Baltic states", ["Estonia", "Latvia", "Lithuania"]),
    ("the primary colours of light", ["red", "green", "blue"]),
    ("the colours of the Italian flag", ["green", "white", "red"]),
    ("the colours of the French flag", ["blue", "white", "red"]),
    ("the countries on the Iberian Peninsula", ["Spain", "Portugal", "Andorra"]),
    ("the divisors of 12", ["1", "2", "3", "4", "6", "12"]),
    ("the divisors of 10", ["1", "2", "5", "10"]),
)
CHOICES = (
    ("a prime between 20 and 40", ["23", "29", "31", "37"]),
    ("an odd number between 20 and 30", ["23", "21", "25", "27", "29"]),
    ("a multiple of 7 between 20 and 40", ["28", "21", "35"]),
    ("a number between 20 and 30 that 4 divides", ["28", "24"]),
    ("a noble gas", ["helium", "neon", "argon", "krypton", "xenon", "radon", "oganesson"]),
    ("an element that is lighter than carbon", ["helium", "hydrogen", "lithium", "beryllium", "boron"]),
    ("a month with 30 days", ["june", "april", "september", "november"]),
    ("a month of summer in Europe", ["june", "july", "august"]),
    ("a country that borders Portugal", ["spain"]),
    ("a country on the Iberian Peninsula", ["spain", "portugal", "andorra"]),
    ("a planet with rings", ["saturn", "jupiter", "uranus", "neptune"]),
    ("a planet that is larger than the Earth", ["saturn", "jupiter", "uranus", "neptune"]),
)
SHELVES = (
    (["bolt"], {"bolt": 40, "nut": 15}),
    (["nut"], {"bolt": 12, "nut": 31, "washer": 8}),
    (["bolt", "nut"], {"bolt": 7, "nut": 5}),
    (["hammer"], {"hammer": 3, "saw": 2}),
    (["saw"], {"hammer": 9, "saw": 0}),
    (["hinge", "latch"], {"hinge": 24, "latch": 18, "lock": 4}),
    (["lock"], {"latch": 6, "lock": 11}),
    (["brush"], {"brush": 17, "roller": 5}),
    (["roller", "brush"], {"brush": 20, "roller": 14}),
    (["hose"], {"hose": 2, "tap": 33}),
    (["tap"], {"hose": 8, "tap": 40}),
    (["drill", "hammer"], {"drill": 6, "hammer": 13, "saw": 1}),
)
CASES = (
    Case(
        "any-order",
        "matching",
        Lists(),
        make_tasks("any-order", LISTS, "List {}, separated by commas."),
        "Lists in any order, some of which share items and so a part of the credit.",
    ),
    Case(
        "one-of-many",
        "matching",
        OneOfMany(),
        make_tasks("one-of-many", CHOICES, "Name {}. One answer is enough."),
        "Several right answers: the gold of one task is a right answer to another.",
    ),
    Case(
        "stock-count",
        "tools",
        Stock(),
        make_tasks(
            "stock-count",
            [
                (" and ".join(asked), str(sum(shelves[item] for item in asked)), {"asked": asked, "shelves": shelves})
                for asked, shelves in SHELVES
            ],
            "How many of these are in stock, all together: {}? Answer with the number alone.",
        ),
        "A small part for form, a penalty for needless calls and a metric, beside the right number.",
    ),
)
