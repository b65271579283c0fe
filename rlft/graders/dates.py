"""Reads one whole date from the notations that people use."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Literal

Order = Literal["day_first", "month_first"]
LONGEST_DATE = 64
"""The most characters of a date; longer texts are not read."""

_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MARKS = re.compile(r"(?<=[0-9])(?:st|nd|rd|th)\b", re.IGNORECASE)


def read_date(text: str, order: Order | None = None) -> date | None:
    """Return the day that a text names and nothing else, or `None`.

    Read are ISO dates, dates with the month in words ("3 March 2014", "March 3rd, 2014", with a day of the week or a
    time of day), and dates in numbers. Where day and month could be exchanged (03/04/2014), `order` decides, and
    without one the text names no day. Year, month and day must all be there.
    """
    text = text.strip().removesuffix(".")
    if not text or len(text) > LONGEST_DATE:
        return None
    if _ISO.fullmatch(text):
        try:
            return date.fromisoformat(text)
        except ValueError:
            return None
    text = _MARKS.sub("", text)
    orders = (True, False) if order is None else (order == "day_first",)
    found = {_parsed(text, day_first=first) for first in orders}
    return found.pop() if len(found) == 1 else None


def _parsed(text: str, *, day_first: bool) -> date | None:
    """Return the day; `None` if a part of it is missing, which shows as it is then taken from the default."""
    from dateutil import parser

    try:
        first, second = (
            parser.parse(text, dayfirst=day_first, default=default).date()
            for default in (datetime(2001, 2, 3), datetime(2004, 5, 6))
        )
    except (ValueError, OverflowError, TypeError, AttributeError, ArithmeticError):
        return None
    return first if first == second else None
