"""Reads one whole date from the notations that people use."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Literal

from dateutil import parser

from rlft.texts.characters import nfkc

Order = Literal["day_first", "month_first"]
LONGEST_DATE = 64
"""The most characters of a date; longer texts are not read."""

_YEAR_FIRST = re.compile(
    r"(?P<year>[0-9]{4})(?P<sign>[-/.]?)(?P<month>[0-9]{1,2})(?P=sign)(?P<day>[0-9]{1,2})"
    r"(?:(?:\s*T\s*|\s+)[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?:\s*[ap]m)?"
    r"\s*(?:Z|UTC|GMT|[+-][0-9]{2}:?(?:[0-9]{2})?)?)?",
    re.IGNORECASE,
)
_BEGINS_SO = re.compile(r"[0-9]{4}[-/.]?[0-9]")
_EAST_ASIAN = re.compile(r"([0-9]{4}) ?[年년] ?([0-9]{1,2}) ?[月월] ?([0-9]{1,2}) ?[日日号號일]")
_MARKS = re.compile(r"(?<=[0-9])(?:st|nd|rd|th)\b", re.IGNORECASE)


def read_date(text: str, order: Order | None = None) -> date | None:
    """Return the day that a text names and nothing else, or `None`.

    Read are dates with the year first ("2014-03-04", "2014/3/4", "20140304"; then always comes the month, ISO 8601),
    with 年月日 or 년월일, with the month in English ("3 March 2014", "March 3rd, 2014", with a day of the week), and in
    numbers. A
    time of day may follow, and is not looked at. Where day and month could be exchanged (03/04/2014), `order` decides,
    and without one the text names no day. Year, month and day must all be there.
    """
    text = text.strip().removesuffix(".").removesuffix("\u3002")
    if not text or len(text) > LONGEST_DATE:
        return None
    text = _EAST_ASIAN.sub(r"\1-\2-\3", nfkc(text))
    if year_first := _YEAR_FIRST.fullmatch(text):
        return _day(year_first)
    if _BEGINS_SO.match(text):
        return None  # dateutil would take 2014/03-04 for either day
    text = _MARKS.sub("", text)
    orders = (True, False) if order is None else (order == "day_first",)
    found = {_parsed(text, day_first=first) for first in orders}
    return found.pop() if len(found) == 1 else None


def _day(match: re.Match[str]) -> date | None:
    year, month, day = (match[each] for each in ("year", "month", "day"))
    if not match["sign"] and len(month + day) < 4:
        return None  # 2014111 may be the 11th of January or the 1st of November
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def _parsed(text: str, *, day_first: bool) -> date | None:
    """Return the day; `None` if a part of it is missing, which shows as it is then taken from the default."""
    try:
        first, second = (
            parser.parse(text, dayfirst=day_first, default=default).date()
            for default in (datetime(2001, 2, 3), datetime(2004, 5, 6))
        )
    except (ValueError, OverflowError, TypeError, AttributeError, ArithmeticError):
        return None
    return first if first == second else None
