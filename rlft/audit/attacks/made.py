"""Makes other answers in the same form: numbers, days and letters are changed, signs and lengths stay."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from functools import lru_cache
from typing import Any

from rlft.audit.attacks.texts import as_json
from rlft.graders.dates import read_date
from rlft.graders.numbers import parse_number

_NUMBER = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")
_YEAR = re.compile(r"(?<![0-9])[12][0-9]{3}(?![0-9])")
_NEAR = Fraction(1, 10)  # numbers that differ by less of the larger one may be equal to a tolerant reward
_NEAR_DAYS = 31  # and so may days that are no farther apart
_YEARS_LATER = 7
_CYCLES = ("aeiou", "bcdfghjklmnpqrstvwxyz")
_OTHER_LETTERS = str.maketrans(
    {
        letter: turned
        for cycle in (*_CYCLES, *map(str.upper, _CYCLES), "0123456789")
        for letter, turned in zip(cycle, cycle[1:] + cycle[0], strict=True)
    }
)
_LONGEST_DATE = 40


def made_answer(answer: str) -> str | None:
    """Return another answer in the form of this one; `None` where there is nothing to change.

    A number becomes three times as large, or a third where that keeps its length, with as many decimals; a day lies
    seven years later; of a JSON value and of any other text each letter becomes the next vowel or consonant.
    """
    if (day := day_of(answer)) is not None:
        return _later_year(answer, day)
    if len(_NUMBER.findall(answer)) == 1 and parse_number(answer) is not None:
        return _made_number(answer)
    value = as_json(answer)
    made = answer.translate(_OTHER_LETTERS) if value is None else json.dumps(_made(value), ensure_ascii=False)
    is_same = made == answer if value is None else _made(value) == value
    return None if is_same else made


def with_number(answer: str, change: Callable[[Fraction], Fraction]) -> str | None:
    """Return an answer whose one number is changed and written with as many decimals; `None` without one number.

    `None` is also returned where the changed number is written as before.
    """
    found = _NUMBER.findall(answer)
    if len(found) != 1 or parse_number(answer) is None:
        return None
    digits = found[0]
    decimals = len(digits.partition(".")[2])
    new = change(Fraction(digits.replace(",", "")))
    said = f"{float(new):,.{decimals}f}" if "," in digits else f"{float(new):.{decimals}f}"
    return None if said == digits else answer.replace(digits, said)


def are_near(one: Any, two: Any) -> bool:
    """Return whether two answers are numbers that differ by less than a tenth of the larger one, or near days.

    Days are near that are at most a month apart.
    """
    texts = [str(each) for each in (one, two) if isinstance(each, str | int | float)]
    if len(texts) < 2:
        return False
    first, second = map(parse_number, texts)
    if first is not None and second is not None:
        return abs(first - second) < _NEAR * max(abs(first), abs(second))
    day, other = map(day_of, texts)
    return day is not None and other is not None and abs((day - other).days) <= _NEAR_DAYS


def position_of(text: str) -> Fraction | None:
    """Return the number that a text is, or of a day its number in the calendar; `None` for any other text."""
    if (number := parse_number(text)) is not None:
        return number
    return None if (day := day_of(text)) is None else Fraction(day.toordinal())


@lru_cache(maxsize=10_000)
def day_of(text: str) -> date | None:
    """Return the day that a text names; `None` for any other text, and quickly for one that is no date at a glance."""
    text = text.strip()
    if len(text) > _LONGEST_DATE or not any(map(str.isdecimal, text)) or parse_number(text) is not None:
        return None
    return read_date(text) if _YEAR.search(text) else None


def _made_number(answer: str) -> str | None:
    changes: tuple[Callable[[Fraction], Fraction], ...] = (lambda n: 3 * n, lambda n: n / 3, lambda n: n + 7)
    said = [text for text in (with_number(answer, change) for change in changes) if text is not None]
    far = [text for text in said if not are_near(text, answer)]
    return next((text for text in far if len(text) == len(answer)), far[0] if far else None)


def _later_year(answer: str, day: date) -> str | None:
    """Return the text with another year, for a day that stands in every year."""
    text, later = answer, day.year + _YEARS_LATER
    if (day.month, day.day) == (2, 29):
        later = day.year + 4 * _YEARS_LATER
    made = _YEAR.sub(str(later), text, count=1)
    return made if day_of(made) not in (None, day) else None


def _made(value: Any) -> Any:
    """Return a JSON value with other texts and numbers in the same places."""
    if isinstance(value, dict):
        return {key: _made(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_made(each) for each in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 3 * value if value else 7
    return value.translate(_OTHER_LETTERS) if isinstance(value, str) else value
