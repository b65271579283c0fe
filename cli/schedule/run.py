"""`rlft schedule run`: waits for the times of schedules, or looks once at what is due now."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import Verbose
from mlops.display.terminal import console
from mlops.home.entries import check_entries
from mlops.home.folder import Home, find_home
from rlft.errors import RlftError


def run(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Schedules that are looked at; without any all are.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Look once, run what is due here, and end.")] = False,
    verbose: Verbose = False,
) -> None:
    """Wait for the times of all schedules, and run what is due, until Ctrl-C or SIGTERM ends it.

    Runs are processes of their own, which go on when this one ends, and are found when it is started again. With --once
    the exit code is 0, or 1 if a run has failed.
    """
    with guarded(verbose, None):
        home = find_home()
        check_entries(home)
        _check(home, names or [])
        if once:
            raise typer.Exit(_once(home, names or []))
        from mlops.schedules.scheduler import wait_for_times

        console.print(f"waiting for the schedules of {home.root}; Ctrl-C ends this, and no run", soft_wrap=True)
        number = wait_for_times(home, names or [])
        raise typer.Exit(128 + number)


def _check(home: Home, names: list[str]) -> None:
    """Raise RlftError for a name that no schedule has, and for one that a cluster keeps."""
    from mlops.schedules import store

    with store.opened(home) as opened:
        found = [store.find(opened, name) for name in names]
    for stored in found:
        if stored.cluster:
            fix = "leave it to the cluster, or take `stack` out of its file and apply that again"
            raise RlftError(f"the cluster keeps {stored.name} itself", where="NAME", fix=fix)


def _once(home: Home, names: list[str]) -> int:
    from mlops.schedules.scheduler import look_once
    from mlops.schedules.watching import Watch

    watch = Watch(home, say=lambda text: console.print(text, soft_wrap=True))
    with watch.signals.handled():
        found = look_once(watch, names)
    if not found:
        console.print("nothing is due")
    if watch.signals.caught:
        return 128 + watch.signals.caught
    return int(any(firing.state == "failed" for firing in found))
