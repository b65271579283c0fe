"""`rlft schedule apply`: makes a schedule of a file, or changes the one of its name."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from mlops.display.terminal import console, errors, styled
from mlops.home.entries import check_entries
from mlops.home.folder import Home, find_home

if TYPE_CHECKING:
    from mlops.schedules.store import Stored


def apply(
    file: Annotated[Path, typer.Argument(help="A YAML file such as configs/schedules/weekly.yaml.")],
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Make a schedule of a file, or change the one of its name.

    The config and all other paths of the file are read from the working directory, now and at each run. If the
    schedule's stack keeps schedules itself, as Kubernetes does, a ZenML schedule is made there.
    """
    with guarded(verbose, None):
        from mlops.schedules import store
        from mlops.schedules.notify import check_notify
        from rlft.config.file import load_config
        from rlft.schedule.file import load_schedule, overrides_of

        home, now = find_home(), datetime.now(UTC)
        check_entries(home)
        schedule, content = load_schedule(file)
        load_config(Path(schedule.config), overrides_of(schedule))
        if schedule.when.score_below is not None:
            from rlft.config.suite_file import load_suite

            load_suite(Path(schedule.when.score_below.suite))
        for missing in check_notify(schedule.notify):
            errors.print(styled("warning", "yellow"), f"{missing}: nobody is told there unless it is set for the run")
        with store.opened(home, make=False) as opened:
            before = next((each for each in store.all_schedules(opened) if each.name == schedule.name), None)
        given = store.Stored(schedule, Path.cwd(), now, now, cluster=before.cluster if before is not None else "")
        cluster = _keep_in_cluster(home, given)
        store.apply_schedule(home, content, Path.cwd(), now)
        with store.opened(home) as opened:
            store.set_cluster(opened, schedule.name, cluster)
            stored = store.find(opened, schedule.name)
        _tell(stored, now, changed=before is not None, as_json=as_json)


def _keep_in_cluster(home: Home, stored: Stored) -> str:
    """Make the ZenML schedule of one whose stack keeps schedules itself; return its name, or nothing."""
    if stored.schedule.stack is None and not stored.cluster:
        return ""
    from mlops.schedules.cluster import keep_in_cluster

    def submit(options: dict[str, Any], arguments: dict[str, Any]) -> None:
        from pipelines.train import train

        train.with_options(**options)(**arguments)

    return keep_in_cluster(home, stored, submit)


def _tell(stored: Stored, now: datetime, *, changed: bool, as_json: bool) -> None:
    from cli.schedule.listing import next_time, shown_time, to_json

    if as_json:
        console.write_json(to_json(stored, None, now))
        return
    console.print(f"schedule {stored.name} is {'changed' if changed else 'made'}")
    following = next_time(stored, now)
    if stored.paused:
        console.print(f"it is paused: rlft schedule resume {stored.name}")
    elif following is not None:
        console.print(f"it is due next {shown_time(stored, following)}")
    if stored.cluster:
        console.print(f"the cluster keeps it, as the ZenML schedule {stored.cluster}")
    else:
        install = f"rlft schedule install {stored.name} --systemd, or --cron, or rlft schedule run"
        console.print(f"something must look at it then: {install}", soft_wrap=True)
