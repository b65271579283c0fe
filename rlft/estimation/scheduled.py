"""What the runs of a schedule take by week and by month, from what one of them takes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rlft.estimation.estimate import Estimate
from rlft.estimation.span import Span
from rlft.schedule.settings import ScheduleConfig
from rlft.schedule.times import MONTH, WEEK, due_per_day

_DAY = 86_400.0  # seconds


@dataclass(frozen=True, slots=True)
class Period:
    """A week or a month of a schedule, in the mean: how often it is `due`, and how many `runs` that makes.

    Of a schedule that asks for reasons there may be none. Runs that take longer than the time between two due times
    are as many as have room one after the other. `seconds` is the time of all runs.
    """

    name: str
    due: float
    runs: Span
    seconds: Span
    tokens: Span
    gpu_hours: Span


def periods_of(schedule: ScheduleConfig, each: Estimate) -> list[Period]:
    """Return a week and a month of a schedule whose runs take as much as `each`, without retries."""
    per_day = due_per_day(schedule.cron)
    return [_period(name, days, per_day * days, schedule, each) for name, days in (("week", WEEK), ("month", MONTH))]


def _period(name: str, days: float, due: float, schedule: ScheduleConfig, each: Estimate) -> Period:
    there = days * _DAY
    runs = Span(
        min(due, there / max(each.seconds.high, 1.0)) if schedule.when.is_always else 0.0,
        min(due, there / max(each.seconds.low, 1.0)),
    )
    seconds = runs.times(each.seconds).at_most(there)
    return Period(name, due, runs, seconds, runs.times(each.sampled + each.evaluated), seconds.times(each.gpus / 3600))


def caveats_of(schedule: ScheduleConfig, each: Estimate) -> list[str]:
    """Return in sentences what the numbers of a schedule do not count with."""
    said = []
    if not schedule.when.is_always:
        reasons = ", ".join(schedule.when.model_dump(exclude_none=True))
        said.append(
            f"A run is begun only for a reason ({reasons}), so that these numbers are the most, and 0 the least."
        )
    if each.seconds.high > _DAY / due_per_day(schedule.cron):
        said.append(
            "A run may take longer than the time between two due times: those that come meanwhile are left out."
        )
    if schedule.stack is not None:
        said.append(f"The runs are on the stack {schedule.stack}, and these numbers are those of this machine.")
    if schedule.retries.count:
        said.append(f"A run that fails is tried again up to {schedule.retries.count} times, which is not counted.")
    return said


def as_json(schedule: ScheduleConfig, each: Estimate, price_per_hour: float | None) -> dict[str, Any]:
    """Return it as JSON; times are in seconds, `due` and `runs` are counts in the mean."""
    found: dict[str, Any] = {"name": schedule.name, "cron": schedule.cron, "timezone": str(schedule.timezone)}
    for period in periods_of(schedule, each):
        cost = None if price_per_hour is None else asdict(period.seconds.times(price_per_hour / 3600))
        found[period.name] = {**asdict(period), "cost": cost}
        del found[period.name]["name"]
    return found | {"caveats": caveats_of(schedule, each)}
