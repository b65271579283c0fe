"""When a schedule is due: a cron expression as a trigger of APScheduler, also where clocks are changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

WEEK, MONTH = 7.0, 1461 / 48
"""Days of a week, and of a month in the mean."""
_DAY = timedelta(days=1)


class DueTrigger(CronTrigger):
    """The due times of a cron expression in a time zone.

    Days of the week have names, as 1 is Monday to cron and Tuesday to `CronTrigger`. A time that the clock skips in
    spring is due an hour later, and one that it shows twice in autumn the first time, unless every hour is due. Raises
    ValueError for an expression that cannot be used.
    """

    def __init__(self, cron: str, timezone: tzinfo) -> None:
        if len(fields := cron.split()) != 5:
            example = "minute, hour, day of the month, month, day of the week, such as 0 4 * * mon"
            raise ValueError(f"{cron!r:.80} has {len(fields)} fields, and cron five: {example}")
        minute, hour, day, month, weekday = fields
        if day != "*" and weekday != "*":
            what = "names days of the month and of the week, of which cron takes either and others both"
            raise ValueError(f"{cron!r:.80} {what}; make two schedules")
        if any(letter.isdigit() for letter in weekday):
            raise ValueError(f"{cron!r:.80} has a number as a day of the week; write names, such as mon or mon-fri")
        super().__init__(minute=minute, hour=hour, day=day, month=month, day_of_week=weekday, timezone=timezone)
        self._is_hourly = hour in ("*", "*/1", "0-23")
        if super().get_next_fire_time(None, datetime.now(timezone)) is None:
            raise ValueError(f"{cron!r:.80} is never due")

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        """Return the first due time after the previous one; without one, the first that is not before now."""
        found = super().get_next_fire_time(previous_fire_time, now)
        while found is not None and found.fold and not self._is_hourly:
            found = super().get_next_fire_time(found, found)
        return found


def newest_due(trigger: DueTrigger, after: datetime, now: datetime) -> datetime | None:
    """Return the newest due time in (after, now]; `None` if there is none."""
    for start in (max(after, now - _DAY), after):  # an expression may be due every minute, and `after` a year ago
        found, last = None, start
        while (moment := trigger.get_next_fire_time(last, now)) is not None and moment <= now:
            found = last = moment
        if found is not None:
            return found
    return None


def due_per_day(cron: str) -> float:
    """Return how many due times a day has in the mean, over 400 weeks; changes of clocks are not counted with."""
    minute, hour, *days = cron.split()
    begin = datetime(2025, 1, 1, tzinfo=UTC)
    return (
        _count(f"{minute} {hour} * * *", begin, begin + _DAY)
        * _count(" ".join(("0", "0", *days)), begin, begin + 2800 * _DAY)
        / 2800
    )


def _count(cron: str, begin: datetime, end: datetime) -> int:
    trigger, count, found = DueTrigger(cron, ZoneInfo("UTC")), 0, None
    while (found := trigger.get_next_fire_time(found, found or begin)) is not None and found < end:
        count += 1
    return count
