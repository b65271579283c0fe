"""`rlft schedule run-now`: a run of a schedule without waiting for its time."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from mlops.display.terminal import console, errors
from mlops.home.entries import check_entries
from mlops.home.folder import find_home
from rlft.errors import RlftError


def run_now(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.")],
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Run what a schedule runs, now and here, whether or not there is a reason.

    It counts as a run of the schedule: what is new is told from it. The exit code is that of `rlft run`.
    """
    with guarded(verbose, None):
        from mlops.schedules import store
        from mlops.schedules.firings import fire_now
        from mlops.schedules.lock import is_held
        from mlops.schedules.watch import carry_out
        from mlops.schedules.watching import Watch

        home = find_home()
        check_entries(home)
        with store.opened(home) as opened:
            stored = store.find(opened, name)
        if stored.cluster:
            fix = f"rlft run {stored.schedule.config} --stack {stored.schedule.stack}"
            raise RlftError(f"the cluster keeps {name} itself", where="NAME", fix=fix)
        if is_held(home, name):
            fix = "wait for it; `rlft schedule list` shows which"
            raise RlftError(f"a run of {name} goes on", where="NAME", fix=fix)
        with store.opened(home) as opened:
            firing = fire_now(opened, name, datetime.now(UTC))
        output = sys.stderr if as_json else None
        watch = Watch(home, say=lambda text: errors.print(text, soft_wrap=True), output=output)
        with watch.signals.handled():
            done = carry_out(watch, firing.id)
        if done is None:
            raise RlftError(f"{name} was deleted meanwhile", where="NAME")
        if as_json:
            console.write_json(done.as_json())
        code = done.tries[-1].code if done.tries else None
        raise typer.Exit(code if code is not None else int(done.state == "failed"))
