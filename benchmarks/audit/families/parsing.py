"""Broken ways to read an answer out of a text."""

from __future__ import annotations

import re
from typing import Any

import rlft
from benchmarks.audit.cases import Case, make_tasks
from rlft.environments.contract.base import BaseEnv
from rlft.types import Task

_TAGS = re.compile(r"<reasoning>(.*?)</reasoning>\s*<answer>(.*?)</answer>", re.DOTALL)


class AnyNumber(BaseEnv):
    """Lets the model explain itself, and looks for the number."""

    @rlft.reward(minimum=0.0)
    def correct(self, text: str, ground_truth: str) -> float:
        """Return 1 if the right number was given."""
        return float(ground_truth in re.findall(r"\d+", text))


class Tagged(BaseEnv):
    """Wants thoughts and answer in tags, and skips an answer that it cannot read, as it skips unreadable golds."""

    @rlft.reward(weight=0.2, minimum=0.0)
    def format(self, text: str) -> float:
        """Return 1 if both tags are there."""
        return float(_TAGS.search(text) is not None)

    @rlft.reward(minimum=0.0)
    def correct(self, text: str, ground_truth: int) -> float | None:
        """Return 1 for the right number, and nothing if there is none to compare."""
        found = _TAGS.search(text)
        if not found:
            return 0.0
        try:
            return float(int(found.group(2).strip()) == ground_truth)
        except ValueError:
            return None

    def gold_completion(self, task: Task) -> str:
        """Return the answer in its tags, behind a thought."""
        return f"<reasoning>I calculate step by step.</reasoning>\n<answer>{task.answer}</answer>"


class Conversions(BaseEnv):
    """Compares numbers within one per cent."""

    @rlft.reward(minimum=0.0)
    def close(self, text: str, ground_truth: Any) -> float:
        """Return 0 for what is no number or too far away, else 1."""
        try:
            value = float(text.strip())
        except ValueError:
            return 0.0
        if abs(value - float(ground_truth)) > 0.01 * abs(float(ground_truth)):
            return 0.0
        return 1.0


PROBLEMS = (
    ("A crate holds 12 bottles. How many bottles are in 7 crates?", "84"),
    ("Mia had 53 stickers and gave 18 away. How many are left?", "35"),
    ("A train leaves with 140 people; 36 get off and 21 get on. How many are on it now?", "125"),
    ("Five friends share 95 marbles fairly. How many does each get?", "19"),
    ("A book has 240 pages. Tom reads 30 a day. How many days does he need?", "8"),
    ("A rectangle is 14 m long and 9 m wide. What is its area in square metres?", "126"),
    ("Eggs come in boxes of 6. How many boxes do 78 eggs fill?", "13"),
    ("Ana runs 4 km on each of 11 days. How many kilometres are that?", "44"),
    ("A shirt of 60 euros is 15 per cent cheaper today. What does it cost?", "51"),
    ("There are 9 rows of 16 chairs, and 5 chairs are broken. How many can be used?", "139"),
    ("A farmer has 27 hens and 3 times as many ducks. How many birds are that?", "108"),
    ("A film of 134 minutes began 47 minutes ago. How many minutes are left?", "87"),
)
EXPRESSIONS = (
    ("17 * 6 - 5", 97),
    ("(48 + 12) / 4", 15),
    ("9 * 9 + 19", 100),
    ("250 - 13 * 8", 146),
    ("7 * (11 - 4)", 49),
    ("144 / 12 + 31", 43),
    ("15 * 15", 225),
    ("1000 - 333", 667),
    ("6 * 7 * 2", 84),
    ("81 / 9 - 12", -3),
    ("23 + 58 + 19", 100),
    ("5 * 64 / 10", 32),
)
UNITS = (
    ("metres are 3.5 km", "3500"),
    ("minutes are 2.25 hours", "135"),
    ("grams are 0.8 kg", "800"),
    ("inches are 5 feet", "60"),
    ("kilometres are 10 miles", "16.09"),
    ("degrees Celsius are 50 degrees Fahrenheit", "10"),
    ("litres are 3 US gallons", "11.36"),
    ("centimetres are 12 inches", "30.48"),
    ("kilograms are 150 pounds", "68.04"),
    ("seconds are one day", "86400"),
    ("square metres are 2 hectares", "20000"),
    ("millilitres are 4 teaspoons of 5 ml", "20"),
)
CASES = (
    Case(
        "any-number",
        "parsing",
        AnyNumber(),
        make_tasks("any-number", PROBLEMS, "{} Explain your steps."),
        "Every number in the text counts as the answer, so counting upwards hits it.",
    ),
    Case(
        "skip-unparsed",
        "parsing",
        Tagged(),
        make_tasks(
            "skip-unparsed",
            EXPRESSIONS,
            "Think in <reasoning></reasoning>, then give the number in <answer></answer>.\n\nWhat is {}?",
        ),
        "An answer that is no number does not apply, and so counts as what the format earns: everything.",
    ),
    Case(
        "nan-is-close",
        "parsing",
        Conversions(),
        make_tasks("nan-is-close", UNITS, "How many {}? Answer with the number alone."),
        "No comparison with NaN is true, so `nan` is never too far away.",
    ),
)
