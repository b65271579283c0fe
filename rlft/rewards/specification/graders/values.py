"""Graders that look at a value: a number, a date, a list, a form, or whether there is anything."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from rlft.errors import TaskError
from rlft.rewards.graders.json_values import check_schema, schema_problem
from rlft.rewards.graders.lists import (
    MOST_ITEMS,
    Compared,
    compare_items,
    pair,
    read_items,
)
from rlft.rewards.graders.numbers import LONGEST_NUMBER, Decimal, Order, read_date, read_number
from rlft.rewards.graders.plain import holds_something, normal, plain
from rlft.rewards.specification.grader import Attempt, Grader, Unmeasured, Verdict, met, no_object, short
from rlft.rewards.specification.reading import Read, Template, gold_of, said, text_read, value_of, value_read

_READ = Field(default=None, description="Where the value stands. null means the whole last message.")
_GOLD = Field(default="{{item.answer}}", description="What is right; a template.")


class Number(Grader):
    """The number is the right one, within a tolerance. Units and currencies are read over, and not compared."""

    type: Literal["number"]
    read: Read | None = _READ
    gold: Template = _GOLD
    decimal: Decimal = Field(
        default="point", description="What stands before the decimals: `point` (1,234.50) or `comma` (1.234,50)."
    )
    tolerance: float = Field(default=0.0, ge=0, le=1e12, description="How far off it may be.")
    relative_tolerance: float = Field(
        default=0.0, ge=0, le=1, description="How far off it may be, as a share of the right number."
    )

    def says(self) -> str:
        """Return what is checked, in words."""
        off = [f"{self.tolerance:g}"] if self.tolerance else []
        off += [f"{100 * self.relative_tolerance:g} %"] if self.relative_tolerance else []
        return f"{said(self.read)} is the number {self.gold}" + (f", give or take {' or '.join(off)}" * bool(off))

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return 1 if the number is close enough, else 0. Raises TaskError if the right one is no number."""
        gold = self._number(value_of(self.gold, attempt))
        if gold is None:
            raise _no_gold(self.gold, "number", attempt)
        given = value_read(self.read, attempt)
        number = self._number(given)
        if number is None:
            return Verdict(0.0, f"{short(plain(given))} is not one number")
        most = max(_exact(self.tolerance), _exact(self.relative_tolerance) * abs(gold))
        shown = _shown(number)
        return met(abs(number - gold) <= most, f"{shown} is right", f"{shown} is not {_shown(gold)}")

    def _number(self, value: Any) -> Fraction | None:
        """Return the number that a value is, exactly as it is written: 5.3 is within 0.3 of 5."""
        if isinstance(value, str):
            return read_number(value, self.decimal)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return None if isinstance(value, float) and not math.isfinite(value) else _exact(value)


class Day(Grader):
    """The date is the right one, in numbers, with 年月日 or 년월일, or with the month in English."""

    libraries = ("python-dateutil",)

    type: Literal["date"]
    read: Read | None = _READ
    gold: Template = _GOLD
    tolerance_days: int = Field(default=0, ge=0, le=36_500, description="How many days off it may be.")
    order: Order | None = Field(
        default=None, description="What comes first in 03/04/2014. null takes such a date for none."
    )

    def says(self) -> str:
        """Return what is checked, in words."""
        off = f", give or take {self.tolerance_days} days" if self.tolerance_days else ""
        return f"{said(self.read)} is the date {self.gold}{off}"

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return 1 if the day is close enough, else 0. Raises TaskError if the right one is no day."""
        gold = read_date(plain(value_of(self.gold, attempt)), self.order)
        if gold is None:
            raise _no_gold(self.gold, "date", attempt)
        text = text_read(self.read, attempt)
        given = read_date(text, self.order)
        if given is None:
            return Verdict(0.0, f"{short(text)} is not one whole date")
        return met(abs((given - gold).days) <= self.tolerance_days, f"{given} is right", f"{given} is not {gold}")


class Items(Grader):
    """The list has the right items."""

    libraries = ("rapidfuzz",)

    type: Literal["list"]
    read: Read | None = _READ
    gold: Template = _GOLD
    compared: Compared = Field(
        default="jaccard",
        description="`exact`, or what is scored: `precision` (share of the given items that are right), `recall` "
        "(share of the right ones that are given), `f1`, or `jaccard` (those in both over those in either).",
    )
    ordered: bool = Field(default=False, description="Whether the order counts.")
    separator: str | None = Field(
        default=None,
        min_length=1,
        max_length=20,
        description="What stands between items in a text. null means a comma or semicolon of any script, 、 too, or "
        "the end of a line.",
    )
    ignore_case: bool = Field(default=True, description="Whether letters in upper and lower case are the same.")
    pairs: Annotated[list[str], Field(min_length=2, max_length=2)] | None = Field(
        default=None,
        description="Where the answer is an object, and the right items are objects: their fields with name and value.",
    )

    def says(self) -> str:
        """Return what is checked, in words."""
        order = " in the right order" if self.ordered else ""
        return f"{said(self.read)} has the items {self.gold}{order} ({self.compared})"

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return how far the items are right, 0 to 1. Raises TaskError if the right ones are no list."""
        right = gold_of(self.gold, self.read, attempt)
        if self._golds(right) is None:
            raise _no_gold(self.gold, f"list of {' and '.join(self.pairs)}" if self.pairs else "list", attempt)
        value = value_read(self.read, attempt)
        # A number before an item numbers it or belongs to it, as in 1. FC Köln: what fits better is meant.
        readings = [self._compared(value, right, numbered=numbered) for numbered in (True, False)]
        return max(readings, key=lambda verdict: verdict.score)

    def _compared(self, value: Any, right: Any, *, numbered: bool) -> Verdict:
        gold, given = self._golds(right, numbered=numbered), read_items(value, self.separator, numbered=numbered)
        if given is None and value is not None:
            raise Unmeasured(f"it has more than {MOST_ITEMS:,} items")
        if given is None or gold is None:
            return Verdict(0.0, "it is no list")
        ours, theirs = (
            [normal(each, ignore_case=self.ignore_case, ignore_space=True) for each in items] for items in (given, gold)
        )
        score = compare_items(ours, theirs, self.compared, ordered=self.ordered)
        return Verdict(score, _differing(ours, theirs))

    def _golds(self, value: Any, *, numbered: bool = True) -> list[str] | None:
        if self.pairs is None:
            return read_items(value, self.separator, numbered=numbered)
        name, held = self.pairs
        if not isinstance(value, list) or not all(
            isinstance(each, dict) and {name, held} <= each.keys() for each in value
        ):
            return None
        return [pair(str(each[name]), each[held]) for each in value]


class Form(Grader):
    """The value fits a JSON schema."""

    libraries = ("jsonschema", "regex")

    type: Literal["json_schema"]
    read: Read | None = Field(
        default=None, description="Where the value stands. null means the one JSON object of the last message."
    )
    json_schema: dict[str, Any] = Field(description="A JSON schema (draft 2020-12), without references to elsewhere.")

    @field_validator("json_schema")
    @classmethod
    def _is_a_schema(cls, schema: dict[str, Any]) -> dict[str, Any]:
        check_schema(schema)
        return schema

    def says(self) -> str:
        """Return what is checked, in words."""
        fields = ", ".join(self.json_schema.get("required") or self.json_schema.get("properties") or ())
        what = "its JSON object" if self.read is None else said(self.read)
        return f"{what} fits a JSON schema" + (f" with {fields}" if fields else "")

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return 1 if the value fits, else 0."""
        value = attempt.json_object if self.read is None else value_read(self.read, attempt)
        if value is None and self.read is None:
            missing = no_object(attempt, "the last message is not one JSON object")
            if isinstance(missing, Unmeasured):
                raise missing
            return Verdict(0.0, str(missing))
        problem = schema_problem(value, self.json_schema)
        return met(problem is None, "it fits", problem or "")


class Present(Grader):
    """There is something to be seen, whatever it is. Pay it apart from what is right, or mentioning is learned."""

    type: Literal["present"]
    read: Read | None = _READ

    def says(self) -> str:
        """Return what is checked, in words."""
        return f"{said(self.read)} is there, and not empty"

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return 1 if there is a value that is not empty, else 0."""
        return met(holds_something(value_read(self.read, attempt)), "it is there", "it is empty")


def _exact(number: float) -> Fraction:
    """Return a number as a Fraction: a float as the shortest decimal that it is written as."""
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def _shown(number: Fraction) -> str:
    """Return a number as people write it, cut if it is long."""
    text = str(number) if number.denominator == 1 else f"{float(number):.12g}"
    return text if len(text) <= LONGEST_NUMBER else f"{text[:LONGEST_NUMBER]}…"


def _differing(given: Sequence[str], gold: Sequence[str]) -> str:
    """Return which items are absent and which are wrong, in words; of each at most three."""
    absent = list((Counter(gold) - Counter(given)).elements())
    extra = list((Counter(given) - Counter(gold)).elements())
    parts = [
        f"{', '.join(map(short, found[:3]))} is {what}"
        for found, what in ((absent, "absent"), (extra, "wrong"))
        if found
    ]
    return "; ".join(parts) or ("it is right" if list(given) == list(gold) else "the same items in another order")


def _no_gold(template: str, what: str, attempt: Attempt) -> TaskError:
    value = json.dumps(value_of(template, attempt), ensure_ascii=False)
    return TaskError(
        f"{template} is {value:.60}, and no {what}",
        where="reward.spec",
        fix="name another column, or let `applies` say which tasks have one",
    )
