"""When a schedule is due: a cron expression as a trigger of APScheduler."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

from apscheduler.triggers.cron import CronTrigger

_DAY = timedelta(days=1)


def due_trigger(cron: str, timezone: tzinfo) -> CronTrigger:
    """Return the due times of a cron expression in a time zone.

    A time that the clock skips in spring is due an hour later, and one that it shows twice in autumn is due twice.
    Raises ValueError for an expression that cannot be used, or that APScheduler reads otherwise than cron.
    """
    trigger = CronTrigger.from_crontab(cron, timezone)
    _, _, day, _, weekday = cron.split()
    if day != "*" and weekday != "*":
        what = "names days of the month and of the week, of which cron takes either and others both"
        raise ValueError(f"{cron!r:.80} {what}; make two schedules")
    if any(letter.isdigit() for letter in weekday):  # 1 is Monday to cron, and Tuesday to APScheduler
        raise ValueError(f"{cron!r:.80} has a number as a day of the week; write names, such as mon or mon-fri")
    if trigger.get_next_fire_time(None, datetime.now(timezone)) is None:
        raise ValueError(f"{cron!r:.80} is never due")
    return trigger


def newest_due(trigger: CronTrigger, after: datetime, now: datetime) -> datetime | None:
    """Return the newest due time in (after, now]; `None` if there is none."""
    for start in (max(after, now - _DAY), after):  # an expression may be due every minute, and `after` a year ago
        found, last = None, start
        while (moment := trigger.get_next_fire_time(last, now)) is not None and moment <= now:
            found = last = moment
        if found is not None:
            return found
    return None
