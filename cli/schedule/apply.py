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
    from rlft.config import TasksConfig


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
        from cli.schedule.listing import seen_of, to_json
        from mlops.schedules import store
        from mlops.schedules.firings import forget_damaged
        from mlops.schedules.notify import check_notify
        from mlops.schedules.variables import with_variables
        from rlft.config.file import load_config
        from rlft.schedule.file import load_schedule, overrides_of

        home, now = find_home(), datetime.now(UTC)
        check_entries(home)
        schedule, content = load_schedule(file)
        config = load_config(Path(schedule.config), overrides_of(schedule))
        if schedule.when.score_below is not None:
            from rlft.config.suite_file import load_suite

            load_suite(Path(schedule.when.score_below.suite))
        with with_variables(home, schedule.name):
            unusable = check_notify(schedule.notify)
        for problem in unusable:
            _warn(f"{problem}: nobody is told there unless it is set rightly for the run")
        for problem in _missing_files(config.tasks):
            _warn(f"{problem}: a run fails unless it is there when the schedule is due")
        with store.opened(home, make=False) as opened:
            before = next((each for each in store.all_schedules(opened) if each.name == schedule.name), None)
        cluster = _keep_in_cluster(home, store.Stored(schedule, Path.cwd(), now, now), before)
        store.apply_schedule(home, content, Path.cwd(), now)
        with store.opened(home) as opened:
            forget_damaged(opened, schedule.name)
            store.set_cluster(opened, schedule.name, cluster)
            stored, seen = store.find(opened, schedule.name), seen_of(opened, schedule.name, home)
        if left_out := _left_out(before, stored, now):
            _warn(left_out)
        if as_json:
            console.write_json(to_json(stored, seen, now))
            return
        _tell(home, stored, now, changed=before is not None)


def _warn(text: str) -> None:
    errors.print(styled("warning", "yellow"), text)


def _left_out(before: Stored | None, stored: Stored, now: datetime) -> str:
    """Return in a sentence that due times of before a change are left out, at which nothing has looked."""
    from mlops.schedules.store import has_same_times
    from rlft.schedule.due import find_due

    if before is None or before.paused or before.cluster or has_same_times(before.schedule, stored.schedule):
        return ""
    due = find_due(before.schedule, before.looked, now)
    if due is None:
        return ""
    when = f"{due.time.astimezone(before.schedule.zone):%a %Y-%m-%d %H:%M %Z}"
    fix = f"`rlft schedule run-now {stored.name}` makes a run for it"
    return f"by its times of before it was due on {when}, at which nothing has looked yet, and is not any more; {fix}"


def _missing_files(tasks: TasksConfig) -> list[str]:
    """Return a sentence for each file of tasks that is not there now; another source may well be out of reach here."""
    from rlft.files import why_no_file

    named = {
        f"{section}.path": Path(source.path)
        for section, source in tasks.sources().items()
        if source.path is not None and source.source in ("jsonl", "csv", "parquet")
    }
    return [f"{where}: {path}: {problem}" for where, path in named.items() if (problem := why_no_file(path))]


def _keep_in_cluster(home: Home, stored: Stored, before: Stored | None) -> str:
    """Make the ZenML schedule of one whose stack keeps schedules itself; return its name, or nothing."""
    if stored.schedule.stack is None and not (before and before.cluster):
        return ""
    from mlops.schedules.cluster import keep_in_cluster

    def submit(options: dict[str, Any], arguments: dict[str, Any]) -> None:
        from pipelines.train import train

        train.with_options(**options)(**arguments)

    return keep_in_cluster(home, stored, before, submit)


def _tell(home: Home, stored: Stored, now: datetime, *, changed: bool) -> None:
    from cli.schedule.listing import next_time, shown_time

    console.print(f"schedule {stored.name} is {'changed' if changed else 'made'}")
    following = next_time(stored, now)
    if stored.paused:
        console.print(f"it is paused: rlft schedule resume {stored.name}")
    elif following is not None:
        console.print(f"it is due next {shown_time(stored, following)}")
    if stored.cluster:
        console.print(f"the cluster keeps it, as the ZenML schedule {stored.cluster}")
    else:
        console.print("`rlft schedule run` must be going then; `rlft schedule lines` prints what begins it by itself")
