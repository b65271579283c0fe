"""The moments that a cron expression means in a time zone, also on the days on which its clocks are changed.

APScheduler's `CronTrigger` finds what a clock on the wall shows at due times. Which moments these are is decided here,
as that trigger takes a time which the clock skips for one that is no due time, and one that comes twice for two:

- a time that the clock skips is due as soon as the clock has gone forward
- a time that comes twice is due the first time
- what is due in every hour follows time that passes: nothing is due in a skipped hour, and in a repeated one both times
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

from rlft.schedule.cron import WEEKDAYS, Cron

_MINUTE, _MARGIN = timedelta(minutes=1), timedelta(days=1)


def due_times(cron: Cron, zone: ZoneInfo, after: datetime, until: datetime) -> list[datetime]:
    """Return the due times in (after, until], ascending and in UTC; both ends are aware."""
    found: set[datetime] = set()
    end = _wall(until, zone) + _margin(until, zone)
    for wall in _walls(cron, _wall(after, zone) - _margin(after, zone)):
        if wall > end:
            break
        found.update(moment for moment in _moments(wall, cron, zone) if after < moment <= until)
    return sorted(found)


def next_due(cron: Cron, zone: ZoneInfo, after: datetime) -> datetime | None:
    """Return the first due time later than `after`, in UTC; `None` if there is none in the calendar."""
    found: list[datetime] = []
    margin = _margin(after, zone)
    for wall in _walls(cron, _wall(after, zone) - margin):
        # What the clock shows later may come sooner where the clock is set back, which matters if both times count.
        if found and (not cron.is_every_hour or wall > _wall(found[0], zone) + margin):
            break
        found += (moment for moment in _moments(wall, cron, zone) if moment > after)
    return min(found, default=None)


def _walls(cron: Cron, start: datetime) -> Iterator[datetime]:
    """Yield what the clock shows at due times from `start` on, naive and ascending, as if no clock were ever set."""
    fields = {"minute": cron.minutes, "hour": cron.hours, "day": cron.days, "month": cron.months}
    given = {name: ",".join(map(str, values)) for name, values in fields.items()}
    # By name: APScheduler counts weekdays from Monday.
    given["day_of_week"] = ",".join(WEEKDAYS[number] for number in cron.weekdays)
    trigger = CronTrigger(**given, timezone=UTC)
    now, previous = start.replace(tzinfo=UTC), None
    while (fire := trigger.get_next_fire_time(previous, now)) is not None:
        yield fire.replace(tzinfo=None)
        previous, now = fire, fire + timedelta(microseconds=1)


def _moments(wall: datetime, cron: Cron, zone: ZoneInfo) -> list[datetime]:
    """Return the due moments, in UTC, at which the clock shows this, or would have shown it."""
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if _wall(first, zone) != wall:  # the clock skips it
        return [] if cron.is_every_hour else [_end_of_gap(first, zone)]
    if first == second or not cron.is_every_hour:
        return [first]
    return [first, second]


def _end_of_gap(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return when the clock went forward, of a moment at which it had just done so."""
    moment = moment.replace(second=0, microsecond=0)
    offset = moment.astimezone(zone).utcoffset()
    while (moment - _MINUTE).astimezone(zone).utcoffset() == offset:
        moment -= _MINUTE
    return moment


def _margin(moment: datetime, zone: ZoneInfo) -> timedelta:
    """Return how much later or earlier what the clock shows may come around a moment: nothing on most days.

    No clock was ever set by more than a day.
    """
    offsets = {(moment + shift).astimezone(zone).utcoffset() for shift in (-2 * _MARGIN, timedelta(), 2 * _MARGIN)}
    return _MARGIN if len(offsets) > 1 else timedelta()


def _wall(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)
