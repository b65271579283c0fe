"""The five fields of a cron expression: minute, hour, day of the month, month, day of the week.

They mean what they mean to cron: days of the week are 0 to 7, and 0 and 7 are Sunday. Read by `CronTrigger` of
APScheduler itself 0 would be Monday, so that the fields become sets of numbers here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SHORT = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_EVERY, _RANGE = re.compile(r"\*(?:/([0-9]{1,4}))?"), re.compile(r"(\w{1,4})(?:-(\w{1,4})(?:/([0-9]{1,4}))?)?")


@dataclass(frozen=True, slots=True)
class Cron:
    """The values that each field allows, in ascending order; weekdays count from 0, which is Sunday."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]

    @property
    def is_every_hour(self) -> bool:
        """Whether it is due in each hour of a day: then it follows time that passes, not what the clock shows."""
        return len(self.hours) == 24

    @property
    def is_any_day(self) -> bool:
        """Whether every day of the month is allowed."""
        return len(self.days) == 31

    @property
    def is_any_weekday(self) -> bool:
        """Whether every day of the week is allowed."""
        return len(self.weekdays) == 7


def read_cron(text: str) -> Cron:
    """Return the fields of an expression. Raises ValueError, which says what is wrong with which field."""
    fields = _SHORT.get(text.strip().lower(), text).split()
    if len(fields) != 5:
        raise ValueError(
            f"{text!r:.80} has {len(fields)} fields, and cron five: minute, hour, day of the month, month, day of the "
            "week, such as 0 4 * * mon"
        )
    minute, hour, day, month, weekday = fields
    weekdays = {number % 7 for number in _values("day of the week", weekday, 0, 7, WEEKDAYS)}
    found = Cron(
        minutes=_values("minute", minute, 0, 59),
        hours=_values("hour", hour, 0, 23),
        days=_values("day of the month", day, 1, 31),
        months=_values("month", month, 1, 12, _MONTHS),
        weekdays=tuple(sorted(weekdays)),
    )
    if not found.is_any_day and not found.is_any_weekday:
        raise ValueError(
            f"{text!r:.80} names days of the month and of the week, of which some programs take either and some both; "
            "make two schedules"
        )
    if all(found.days[0] > _LONGEST_MONTHS[number - 1] for number in found.months):
        raise ValueError(f"{text!r:.80} is never due: no such month has a day {found.days[0]}")
    return found


def _values(what: str, field: str, low: int, high: int, names: tuple[str, ...] = ()) -> tuple[int, ...]:
    """Return the numbers that a field allows. Raises ValueError."""
    found: set[int] = set()
    for part in field.split(","):
        if every := _EVERY.fullmatch(part):
            first, last, step = low, high, every[1]
        elif match := _RANGE.fullmatch(part):
            first = _number(what, match[1], low, high, names)
            last = _number(what, match[2], low, high, names) if match[2] else first
            step = match[3]
        else:
            raise ValueError(f"{what}: {part!r:.40} cannot be read; write *, */2, 4, 4-6 or 4,6")
        if last < first or step == "0":
            raise ValueError(f"{what}: {part!r:.40} allows nothing; write the smaller number first, and a step from 1")
        found.update(range(first, last + 1, int(step or 1)))
    return tuple(sorted(found))


def _number(what: str, text: str, low: int, high: int, names: tuple[str, ...]) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + (1 if names is _MONTHS else 0)
    if not text.isascii() or not text.isdecimal() or not low <= int(text) <= high:
        known = f" or {names[0]} to {names[-1]}" if names else ""
        raise ValueError(f"{what}: {text!r:.40} is not {low} to {high}{known}")
    return int(text)
