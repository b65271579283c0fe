"""`rlft schedule list`: when schedules are due next and what came of the last time, or all firings of one."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.table import Table

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from mlops.display.terminal import console, styled
from mlops.home.entries import check_entries
from mlops.home.folder import Home, find_home

if TYPE_CHECKING:
    from mlops.schedules.firings import Firing
    from mlops.schedules.store import Stored

_COLOURS = {"failed": "red", "missed": "yellow", "skipped": "yellow", "running": "cyan", "waiting": "cyan"}


def list_schedules(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Schedule whose due times are listed, the newest first.")
    ] = None,
    limit: Annotated[int, typer.Option(help="List at most so many due times; 0 lists all.", min=0)] = 20,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """List the schedules: when each is due next, and what came of the last time. With NAME list what came of each."""
    with guarded(verbose, None):
        from mlops.schedules import store
        from mlops.schedules.firings import firings_of

        home, now = find_home(), datetime.now(UTC)
        check_entries(home)
        with store.opened(home, make=False) as opened:
            if name is not None:
                stored, firings = store.find(opened, name), firings_of(opened, name, limit)
                _show_one(home, stored, firings, seen_of(opened, name, home), now, as_json=as_json)
                return
            rows = [(each, seen_of(opened, each.name, home)) for each in store.all_schedules(opened)]
        if as_json:
            console.write_json([to_json(stored, seen, now) for stored, seen in rows])
        elif not rows:
            console.print(f"no schedules in {home.root}; `rlft schedule apply FILE` makes one", soft_wrap=True)
        else:
            _show_all(home, rows, now)


class Seen(NamedTuple):
    """Of the firings of a schedule the newest one, the newest whose run is over, and one that is not over.

    `is_alive` says that the last goes on: that something looks after it, or that its run goes on alone.
    """

    newest: Firing | None = None
    last_run: Firing | None = None
    going_on: Firing | None = None
    is_alive: bool = False

    @property
    def told(self) -> list[Firing]:
        """Those that a list tells of, each once: what goes on, the last result, and what has come since without one."""
        newest = self.newest if self.newest is not None and self.newest.is_over else None
        found = {each.id: each for each in (self.going_on, newest, self.last_run) if each is not None}
        return list(found.values())


def seen_of(opened: sqlite3.Connection, name: str, home: Home) -> Seen:
    """Return what a list tells of the firings of a schedule of a home."""
    from mlops.schedules.firings import firings_of, last_run, unfinished

    newest, left = firings_of(opened, name, 1), unfinished(opened, name)
    going_on = left[0] if left else None
    is_alive = going_on is not None and is_going_on(going_on, home)
    return Seen(newest[0] if newest else None, last_run(opened, name), going_on, is_alive)


def is_going_on(firing: Firing, home: Home) -> bool:
    """Return whether something looks after a firing that is not over, or its run goes on without that."""
    from mlops.schedules.lock import is_held

    is_left = firing.is_over or firing.state == "due"  # nothing has begun to look after it yet
    return firing.is_watched or (not is_left and is_held(home, firing.schedule))


def _show_all(home: Home, rows: list[tuple[Stored, Seen]], now: datetime) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("schedule", "next", "last", "what came of it"):
        table.add_column(heading, overflow="fold", no_wrap=heading != "what came of it")
    for stored, seen in rows:
        following = next_time(stored, now)
        due = "paused" if stored.paused else "-" if following is None else shown_time(stored, following)
        first, *rest = [(shown_time(stored, each.due), _said(each, home)) for each in seen.told] or [("-", "-")]
        table.add_row(stored.name, due, *first)
        for more in rest:
            table.add_row("", "", *more)
    console.print(table)


def _show_one(home: Home, stored: Stored, firings: list[Firing], seen: Seen, now: datetime, *, as_json: bool) -> None:
    if as_json:
        schedule = to_json(stored, seen, now)
        console.write_json({**schedule, "firings": [each.as_json() for each in firings]})
        return
    if not firings:
        console.print(f"{stored.name} has not been due yet")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("due", "run", "what came of it"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "due")
    for each in firings:
        table.add_row(shown_time(stored, each.due), each.run or "-", _said(each, home))
    console.print(table)


def _said(firing: Firing, home: Home) -> Any:
    if firing.is_over:
        return styled(firing.said or firing.state.replace("_", " "), _COLOURS.get(firing.state, ""))
    if firing.is_given_up:
        return styled("cut short, and is not run: its command is gone", "yellow")
    text, colour = firing.state, _COLOURS.get(firing.state, "")
    if firing.state != "due" and not is_going_on(firing, home):
        text, colour = f"{text}, and was cut short: it goes on as soon as something looks", "yellow"
    more = firing.said or firing.reason
    return styled(f"{text}: {more}" if firing.reason else text, colour)


def to_json(stored: Stored, seen: Seen, now: datetime) -> dict[str, Any]:
    """Return a schedule as `--json` prints it."""
    last = seen.newest
    following = next_time(stored, now)
    return {
        "name": stored.name,
        "config": stored.schedule.config,
        "folder": str(stored.folder),
        "cron": stored.schedule.cron,
        "timezone": stored.schedule.timezone,
        "when": stored.schedule.when.model_dump(exclude_none=True) or "always",
        "state": "paused" if stored.paused else "running" if seen.is_alive else "active",
        "stack": stored.schedule.stack,
        "cluster": stored.cluster or None,
        "applied": stored.applied.isoformat(timespec="seconds"),
        "next": following and following.isoformat(timespec="seconds"),
        "last": last and last.as_json(),
        "last_run": seen.last_run and seen.last_run.as_json(),
    }


def next_time(stored: Stored, now: datetime) -> datetime | None:
    """Return when a schedule is due next, in UTC; `None` if it is paused or never due again."""
    from rlft.schedule.cron import read_cron
    from rlft.schedule.times import next_due

    return None if stored.paused else next_due(read_cron(stored.schedule.cron), stored.schedule.zone, now)


def shown_time(stored: Stored, moment: datetime) -> str:
    """Return a moment as the clock of a schedule's time zone shows it."""
    return f"{moment.astimezone(stored.schedule.zone):%a %Y-%m-%d %H:%M %Z}"
