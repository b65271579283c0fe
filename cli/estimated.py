"""Shows what a run will take, and the runs of a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlft.reporting.bars import duration
from rlft.reporting.terminal import console, styled

if TYPE_CHECKING:  # they import numpy
    from rlft.estimation.estimate import Estimate
    from rlft.estimation.span import Span
    from rlft.schedule.settings import ScheduleConfig


def show_estimate(found: Estimate, name: str, price_per_hour: float | None) -> None:
    """Print what a run takes, stage by stage and in all, and what the numbers rest on."""
    from rich.table import Table

    table = Table(title=f"What a run of {name} takes")
    for column in ("stage", "time", "what is done"):
        table.add_column(column)
    for stage in found.stages:
        table.add_row(stage.name, _times(stage.seconds), stage.what)
    table.add_row(styled("in all", "bold"), styled(_times(found.seconds), "bold"), "after a start of about 20 s")
    console.print(table)
    console.print(
        f"Tokens: {_counts(found.sampled)} are sampled in the rounds, {_counts(found.evaluated)} beside them."
    )
    console.print(styled(found.room.sentence, "" if found.room.verdict in ("fits", "unknown") else "red"))
    if found.trainer is not None:
        low, high = (each / 2**30 for each in (found.trainer.low, found.trainer.high))
        console.print(f"Each trainer takes {low:.3g} to {high:.3g} GiB of that.")
    if found.gpus:
        hours = found.seconds.times(found.gpus / 3600)
        console.print(f"GPU-hours: {hours.low:.2g} to {hours.high:.2g} on {found.gpus} GPU{'s' * (found.gpus > 1)}.")
    if price_per_hour is not None:
        cost = found.cost(price_per_hour)
        console.print(f"Cost: {cost.low:,.2f} to {cost.high:,.2f} at {price_per_hour:,g} an hour.")
    for sentence in (*found.basis, *found.endings):
        console.print(sentence)


def show_schedule(found: Estimate, schedule: ScheduleConfig, price_per_hour: float | None) -> None:
    """Print what the runs of a schedule take by week and by month."""
    from rich.table import Table

    from rlft.estimation.scheduled import caveats_of, periods_of

    periods = periods_of(schedule, found)
    table = Table(title=styled(f"What the schedule {schedule.name} takes, in the mean"))
    for column in ("", *(f"a {period.name}" for period in periods)):
        table.add_column(column)
    table.add_row("due times", *(_number(period.due) for period in periods))
    table.add_row("runs", *(_numbers(period.runs) for period in periods))
    table.add_row("time", *(_times(period.seconds) for period in periods))
    table.add_row("tokens", *(_counts(period.tokens) for period in periods))
    if found.gpus:
        table.add_row("GPU-hours", *(_numbers(period.gpu_hours) for period in periods))
    if price_per_hour is not None:
        costs = (period.seconds.times(price_per_hour / 3600) for period in periods)
        table.add_row("cost", *(f"{cost.low:,.2f} to {cost.high:,.2f}" for cost in costs))
    console.print(table)
    for sentence in caveats_of(schedule, found):
        console.print(sentence)


def _numbers(span: Span) -> str:
    low, high = _number(span.low), _number(span.high)
    return low if low == high else f"{low} to {high}"


def _number(value: float) -> str:
    """Return a number with three digits at least, and all of those before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _times(span: Span) -> str:
    low, high = duration(span.low), duration(span.high)
    return low if low == high else f"{low} to {high}"


def _counts(span: Span) -> str:
    return f"{span.low:,.0f} to {span.high:,.0f}"
