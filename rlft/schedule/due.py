"""Which due times a run is begun for, and which were missed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from rlft.schedule.cron import read_cron
from rlft.schedule.settings import ScheduleConfig
from rlft.schedule.times import due_times

_LOOK_BACK = (timedelta(days=1), timedelta(days=32), timedelta(days=400), timedelta(days=1500))
"""How far back due times are looked for, the shorter way first: an expression may be due every minute."""
_MANY = 100  # if so many are found, nobody needs to know how many more there are


@dataclass(frozen=True, slots=True)
class Due:
    """The newest due time since something last looked, and what becomes of it.

    `run`: a run is begun for it. `missed`: it was seen too late, and none is. `others` counts the due times before it
    that nothing had looked at, of which no run is begun; `is_least` says that there may be more.
    """

    time: datetime
    verdict: Literal["run", "missed"]
    others: int
    is_least: bool = False

    @property
    def sentence(self) -> str:
        """What is worth saying about it; empty if nothing is."""
        if self.verdict == "missed":
            return f"nothing looked at {self._times(self.others + 1)}, which `missed: skip` leaves out"
        if self.others:
            return f"nothing looked at {self._times(self.others)} before this one, for which it stands, too"
        return ""

    def _times(self, count: int) -> str:
        return f"{'at least ' * self.is_least}{'1 due time' if count == 1 else f'{count} due times'}"


def find_due(schedule: ScheduleConfig, after: datetime, now: datetime) -> Due | None:
    """Return what is due in (after, now], where `after` is when something looked last; `None` if nothing is."""
    cron, zone = read_cron(schedule.cron), schedule.zone
    found, start = list[datetime](), now
    for back in _LOOK_BACK:
        if start <= after or len(found) >= _MANY:
            break
        start = max(after, now - back)
        found = due_times(cron, zone, start, now)
    if not found:
        return None
    is_late = now - found[-1] > timedelta(minutes=schedule.grace_minutes)
    verdict = "missed" if is_late and schedule.missed == "skip" else "run"
    return Due(found[-1], verdict, len(found) - 1, is_least=start > after)
