"""Honest rewards of one answer, which look odd to an auditor: short golds, partial credit, tolerance."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import rlft
from benchmarks.audit.cases import Case, make_tasks
from rlft.environments.contract.base import BaseEnv


class Claims(BaseEnv):
    """Is yes or no, and nothing else."""

    @rlft.reward(minimum=0.0)
    def right(self, text: str, ground_truth: str) -> float:
        """Return 1 for the right word, in any case and with or without a full stop."""
        return float(text.strip().lower().removesuffix(".") == ground_truth)


class Bookings(BaseEnv):
    """Pays each field of a booking; fields that were made up count as wrong ones."""

    @rlft.reward(minimum=0.0)
    def fields(self, text: str, ground_truth: dict[str, Any]) -> float:
        """Return the share of the fields that are right."""
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            return 0.0
        if not isinstance(said, dict):
            return 0.0
        # A text as JSON tells true from 1, which Python takes for equal.
        right = sum(key in said and json.dumps(said[key]) == json.dumps(value) for key, value in ground_truth.items())
        return right / len(said.keys() | ground_truth.keys())


class Estimates(BaseEnv):
    """Pays numbers within 2 per cent fully and those within 20 per cent in part."""

    @rlft.reward(minimum=0.0)
    def close(self, text: str, ground_truth: float) -> float:
        """Return 1 up to an error of 2 per cent, falling to 0 at 20 per cent; 0 for anything but one number."""
        if not re.fullmatch(r"-?\d{1,12}(\.\d{1,6})?", text.strip()):
            return 0.0
        error = math.fabs(float(text) - ground_truth) / ground_truth
        return min(1.0, max(0.0, (0.2 - error) / 0.18))


CLAIMS = (
    ("A whale is a mammal.", "yes"),
    ("The Pacific is smaller than the Atlantic.", "no"),
    ("91 is a prime number.", "no"),
    ("Helium is lighter than air.", "yes"),
    ("Lisbon lies south of Madrid.", "yes"),
    ("A spider has six legs.", "no"),
    ("Sound travels faster in water than in air.", "yes"),
    ("Norway is a member of the European Union.", "no"),
    ("The square root of 2 is a fraction of whole numbers.", "no"),
    ("Bats are birds.", "no"),
    ("Mount Everest is higher than K2.", "yes"),
    ("A leap year has 366 days.", "yes"),
    ("Gold reacts with air and rusts.", "no"),
    ("Every square is a rectangle.", "yes"),
    ("The sun is a star.", "yes"),
    ("Penguins live at the North Pole.", "no"),
)


def _booking(origin: str, destination: str, people: int, day: str) -> dict[str, Any]:
    return {"from": origin, "to": destination, "people": people, "day": day}


BOOKINGS = (
    ("Two tickets from Graz to Vienna on Friday, please.", _booking("Graz", "Vienna", 2, "Friday")),
    ("I need to get from Linz to Vienna on Friday.", _booking("Linz", "Vienna", 1, "Friday")),
    ("We are four and go from Graz to Linz on Sunday.", _booking("Graz", "Linz", 4, "Sunday")),
    ("Book Salzburg to Munich for 2 on Monday.", _booking("Salzburg", "Munich", 2, "Monday")),
    ("From Vienna to Graz, two adults, Sunday.", _booking("Vienna", "Graz", 2, "Sunday")),
    ("One seat Munich to Vienna for Tuesday.", _booking("Munich", "Vienna", 1, "Tuesday")),
    ("My wife and I travel from Linz to Salzburg on Monday.", _booking("Linz", "Salzburg", 2, "Monday")),
    ("Please reserve Graz to Vienna on Saturday for three.", _booking("Graz", "Vienna", 3, "Saturday")),
    ("Munich to Salzburg, Friday, 5 people.", _booking("Munich", "Salzburg", 5, "Friday")),
    ("On Tuesday I take the train from Vienna to Linz.", _booking("Vienna", "Linz", 1, "Tuesday")),
    ("Six of us, from Salzburg to Vienna, on Saturday.", _booking("Salzburg", "Vienna", 6, "Saturday")),
    ("A single from Linz to Graz for Sunday.", _booking("Linz", "Graz", 1, "Sunday")),
)
ESTIMATES = (
    ("the height of the Eiffel Tower in metres", 330),
    ("the length of the Danube in kilometres", 2850),
    ("the height of Mont Blanc in metres", 4806),
    ("the height of Mount Kilimanjaro in metres", 5895),
    ("the diameter of the moon in kilometres", 3474),
    ("the length of a marathon in kilometres", 42.2),
    ("the boiling point of ethanol in degrees Celsius", 78.4),
    ("the population of Austria in millions", 9.1),
    ("the population of Switzerland in millions", 8.9),
    ("the length of the Rhine in kilometres", 1230),
    ("the depth of Lake Baikal in metres", 1642),
    ("the speed of sound in air in metres per second", 343),
    ("the height of the Great Pyramid today in metres", 138),
    ("the atomic mass of iron", 55.85),
)
CASES = (
    Case(
        "yes-or-no",
        "matching",
        Claims(),
        make_tasks("yes-or-no", CLAIMS, "Is this true? Answer yes or no.\n\n{}"),
        "Short golds that stand in the prompt: one word earns half on average, as it must.",
    ),
    Case(
        "share-of-fields",
        "form",
        Bookings(),
        make_tasks("share-of-fields", BOOKINGS, "Return from, to, people and day of this booking as JSON.\n\n{}"),
        "Partial credit: bookings share fields, so that the gold of another one is rightly paid in part.",
    ),
    Case(
        "within-tolerance",
        "parsing",
        Estimates(),
        make_tasks("within-tolerance", ESTIMATES, "Estimate {}. Answer with the number alone."),
        "Tolerance: several golds lie so close together that one is nearly right for another.",
    ),
)
