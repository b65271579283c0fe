"""`rlft schedule pause`, `resume` and `delete`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from mlops.display.terminal import console
from mlops.home.entries import check_entries
from mlops.home.folder import Home, find_home

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.")]


def pause(name: Name, as_json: ResultAsJson = False, verbose: Verbose = False) -> None:
    """Let a schedule not be due until it is resumed. A run that goes on comes to its end, and is not tried again."""
    with guarded(verbose, None):
        _set_paused(name, True, as_json=as_json)


def resume(name: Name, as_json: ResultAsJson = False, verbose: Verbose = False) -> None:
    """Let a paused schedule be due again, from now on: what was due meanwhile is left out."""
    with guarded(verbose, None):
        _set_paused(name, False, as_json=as_json)


def delete(name: Name, as_json: ResultAsJson = False, verbose: Verbose = False) -> None:
    """Delete a schedule, and what is noted of its due times. Its runs stay, and one that goes on does so."""
    with guarded(verbose, None):
        from mlops.schedules import store

        home = _home()
        with store.opened(home) as opened:
            stored = store.find_or_damaged(opened, name)
        if stored is not None and stored.cluster:
            from mlops.schedules.cluster import drop_from_cluster

            drop_from_cluster(home, stored)
        with store.opened(home) as opened:
            store.remove(opened, name)
        if as_json:
            console.write_json({"name": name, "deleted": True})
            return
        console.print(f"schedule {name} is deleted")


def _home() -> Home:
    home = find_home()
    check_entries(home)
    return home


def _set_paused(name: str, paused: bool, *, as_json: bool) -> None:
    from cli.schedule.listing import next_time, seen_of, shown_time, to_json
    from mlops.schedules import store

    home, now = _home(), datetime.now(UTC)
    with store.opened(home) as opened:
        found = store.find(opened, name)
    if found.cluster:
        from mlops.schedules.cluster import set_active

        set_active(home, found, not paused)
    with store.opened(home) as opened:
        stored = store.set_paused(opened, name, paused, now)
        seen = seen_of(opened, name, home)
    if as_json:
        console.write_json(to_json(stored, seen, now))
        return
    following = next_time(stored, now)
    due = f"; it is due next {shown_time(stored, following)}" if following is not None else ""
    console.print(f"schedule {name} is {'paused' if paused else 'active'}{due}")
