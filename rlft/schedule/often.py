"""How often a schedule is due, in the mean over years."""

from __future__ import annotations

from datetime import date, timedelta

from rlft.schedule.cron import Cron

_DAYS = 28 * 365 + 7  # 28 years: after these each date falls on the same day of the week again
WEEK, MONTH = 7.0, _DAYS / (28 * 12)
"""Days of a week, and of a month in the mean."""


def due_per_day(cron: Cron) -> float:
    """Return how many due times a day has in the mean, over 28 years; changes of clocks are not counted with.

    A cron expression that names days of the month and of the week at once is none (`read_cron`), so that a day is due
    if both fields allow it.
    """
    days = (date(2025, 1, 1) + timedelta(days=place) for place in range(_DAYS))
    due = sum(
        day.month in cron.months and day.day in cron.days and day.isoweekday() % 7 in cron.weekdays for day in days
    )
    return due / _DAYS * len(cron.hours) * len(cron.minutes)
