"""`rlft schedule`: what runs by itself, when, and why."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from mlops.home.folder import Home, find_home
from rlft.errors import RlftError
from rlft.terminal import console, errors, styled

if TYPE_CHECKING:
    from mlops.schedules.store import Firing, Stored
    from rlft.config import Config

app = typer.Typer(no_args_is_help=True, help="Train again when there is a reason, without anyone watching.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.")]
_COLOURS = {"failed": "red", "missed": "yellow", "skipped": "yellow", "running": "cyan"}


@app.command()
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
        from rlft.schedule.settings import load_schedule, overrides_of

        home, now = find_home(), datetime.now(UTC)
        schedule, content = load_schedule(file)
        config = load_config(Path(schedule.config), overrides_of(schedule))
        if schedule.when.score_below is not None:
            from rlft.config.suite_file import load_suite

            load_suite(Path(schedule.when.score_below.suite))
        with _variables(home, schedule.name):
            problem = check_notify(schedule.notify)
        if problem:
            _warn(f"{problem}: nobody is told there unless it is set rightly for the run")
        for problem in _missing_files(config):
            _warn(f"{problem}: a run fails unless it is there when the schedule is due")
        before = next((each for each in store.all_schedules(home) if each.name == schedule.name), None)
        stored = store.Stored(content=content, folder=Path.cwd(), since=now)
        if before is not None:
            stored.paused = before.paused
            same = (before.schedule.cron, before.schedule.timezone) == (schedule.cron, schedule.timezone)
            if same:  # what is due by them still is
                stored.since = before.since
            elif not before.cluster and store.due_now(home, before, now):
                _warn("what was due by the times of before is left out: `rlft schedule run-now` makes a run for it")
        stored.cluster = _keep_in_cluster(home, stored, before)
        store.keep(home, stored)
        if as_json:
            console.write_json(_as_json(home, stored, now))
            return
        console.print(f"schedule {stored.name} is {'changed' if before else 'made'}")
        if stored.paused:
            console.print(f"it is paused: rlft schedule resume {stored.name}")
        elif following := _next_time(stored, now):
            console.print(f"it is due next {_shown(stored, following)}")
        if stored.cluster:
            console.print(f"the cluster keeps it, as the ZenML schedule {stored.cluster}")
        else:
            console.print(
                "`rlft schedule run` must be going then; `rlft schedule lines` prints what begins it by itself"
            )


def _warn(text: str) -> None:
    errors.print(styled("warning", "yellow"), text)


def _missing_files(config: Config) -> list[str]:
    """Return a sentence for each file of tasks that is not there now; another source may well be out of reach here."""
    from rlft.files import why_no_file

    named = {
        f"{section}.path": Path(source.path)
        for section, source in config.tasks.sources().items()
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


@app.command()
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
        from mlops.schedules import store

        home = find_home()
        found = [_kept_here(home, name) for name in names or []]
        if not once:
            from mlops.schedules.scheduler import Scheduler

            console.print(f"waiting for the schedules of {home.root}; Ctrl-C ends this, and no run", soft_wrap=True)
            raise typer.Exit(128 + Scheduler(home, names or ()).run())
        done = list[Any]()
        for stored in found or [each for each in store.all_schedules(home) if not each.cluster]:
            done += _watched(home, stored, lambda watch: watch.look())
        if not done:
            console.print("nothing is due")
        raise typer.Exit(int(any(firing.state == "failed" for firing in done)))


def _kept_here(home: Home, name: str) -> Stored:
    """Return a schedule. Raises RlftError if there is none of this name, or if a cluster keeps it."""
    from mlops.schedules.store import find

    stored = find(home, name)
    if stored.cluster:
        fix = "leave it to the cluster, or take `stack` out of its file and apply that again"
        raise RlftError(f"the cluster keeps {name} itself", where="NAME", fix=fix)
    return stored


@contextmanager
def _variables(home: Home, name: str) -> Iterator[None]:
    """Have the variables of `.rlft/schedules/NAME.env` in this process's environment."""
    from dotenv import dotenv_values

    from mlops.schedules.store import file_of

    before = dict(os.environ)
    given = dotenv_values(file_of(home, name, ".env"), interpolate=False)
    os.environ.update({key: value for key, value in given.items() if value is not None})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _watched(home: Home, stored: Stored, look: Any, output: Any = None) -> Any:
    """Return what a look at a schedule gives, with its variables, in its folder."""
    from mlops.schedules.firing import EndedError, Watch

    with _variables(home, stored.name):
        watch = Watch(home, stored, say=lambda text: errors.print(text, soft_wrap=True), output=output)
        try:
            return look(watch)
        except EndedError as ended:
            errors.print(str(ended))
            raise typer.Exit(128 + ended.number) from None


@app.command()
def lines(as_json: ResultAsJson = False, verbose: Verbose = False) -> None:
    """Print a line for a crontab and a unit for systemd: either begins `rlft schedule run` with the machine.

    Nothing is written or installed.
    """
    with guarded(verbose, None):
        from mlops.schedules.scheduler import crontab_line, systemd_unit

        home = find_home()
        line, unit = crontab_line(home), systemd_unit(home)
        if as_json:
            console.write_json({"crontab": line, "systemd": unit})
            return
        told = "to ~/.config/systemd/user/rlft-schedules.service, and call"
        console.print(f"# with cron: add this line by `crontab -e`\n{line}\n", soft_wrap=True)
        console.print(f"# with systemd: write this {told}", soft_wrap=True)
        console.print("# systemctl --user enable --now rlft-schedules && loginctl enable-linger", soft_wrap=True)
        console.print(unit, soft_wrap=True)


@app.command(name="list")
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

        home, now = find_home(), datetime.now(UTC)
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        if name is not None:
            stored = store.find(home, name)
            told = store.history(home, name)[: limit or None]
            if as_json:
                firings = [each.model_dump(mode="json") for each in told]
                console.write_json(_as_json(home, stored, now) | {"firings": firings})
                return
            columns = ("due", "run", "what came of it")
            rows = [(_shown(stored, each.due), each.run or "-", _said(each)) for each in [*_running(home, name), *told]]
            empty = f"{name} has not been due yet"
        else:
            found = store.all_schedules(home)
            if as_json:
                console.write_json([_as_json(home, stored, now) for stored in found])
                return
            columns = ("schedule", "next", "last", "what came of it")
            rows = [row for stored in found for row in _rows(home, stored, now)]
            empty = f"no schedules in {home.root}; `rlft schedule apply FILE` makes one"
        for heading in columns:
            table.add_column(heading, overflow="fold", no_wrap=heading != "what came of it")
        for row in rows:
            table.add_row(*row)
        console.print(table if rows else empty, soft_wrap=not rows)


def _running(home: Home, name: str) -> list[Firing]:
    """Return the run of a schedule that is not over, if there is one."""
    from mlops.schedules.store import is_running, state_of

    if (firing := state_of(home, name).running) is None:
        return []
    cut = "" if is_running(home, name) else "; it was cut short, and goes on at the next look"
    return [firing.model_copy(update={"said": f"{firing.reason}{cut}"})]


def _rows(home: Home, stored: Stored, now: datetime) -> list[tuple[Any, ...]]:
    """Return a schedule as lines of a table: what goes on, the last due time, and the last run if that is another."""
    from mlops.schedules.store import history

    past = history(home, stored.name)
    last_run = next((each for each in past if each.run is not None), None)
    told = [*_running(home, stored.name), *past[:1], *([last_run] if last_run and last_run is not past[0] else [])]
    following = _next_time(stored, now)
    due = "paused" if stored.paused else "-" if following is None else _shown(stored, following)
    lines = [(_shown(stored, each.due), _said(each)) for each in told] or [("-", "-")]
    return [(stored.name, due, *lines[0]), *(("", "", *line) for line in lines[1:])]


def _said(firing: Firing) -> Any:
    text = f"running: {firing.said}" if firing.state == "running" else firing.said
    return styled(text, _COLOURS.get(firing.state, ""))


def _as_json(home: Home, stored: Stored, now: datetime) -> dict[str, Any]:
    """Return a schedule as `--json` prints it."""
    from mlops.schedules.store import history, is_running

    past, following = history(home, stored.name), _next_time(stored, now)
    last_run = next((each for each in past if each.run is not None), None)
    return {
        "name": stored.name,
        "config": stored.schedule.config,
        "folder": str(stored.folder),
        "cron": stored.schedule.cron,
        "timezone": stored.schedule.timezone,
        "when": stored.schedule.when.model_dump(exclude_none=True) or "always",
        "state": "running" if is_running(home, stored.name) else "paused" if stored.paused else "active",
        "stack": stored.schedule.stack,
        "cluster": stored.cluster or None,
        "since": stored.since.isoformat(timespec="seconds"),
        "next": following and following.isoformat(timespec="seconds"),
        "last": past[0].model_dump(mode="json") if past else None,
        "last_run": last_run and last_run.model_dump(mode="json"),
    }


def _next_time(stored: Stored, now: datetime) -> datetime | None:
    """Return when a schedule is due next, in UTC; `None` if it is paused or never due again."""
    following = None if stored.paused else stored.schedule.trigger.get_next_fire_time(None, now)
    return following and following.astimezone(UTC)


def _shown(stored: Stored, moment: datetime) -> str:
    return f"{moment.astimezone(stored.schedule.zone):%a %Y-%m-%d %H:%M %Z}"


@app.command()
def pause(name: Name, as_json: ResultAsJson = False, verbose: Verbose = False) -> None:
    """Let a schedule not be due until it is resumed. A run that goes on comes to its end, and is not tried again."""
    with guarded(verbose, None):
        _set_paused(name, True, as_json=as_json)


@app.command()
def resume(name: Name, as_json: ResultAsJson = False, verbose: Verbose = False) -> None:
    """Let a paused schedule be due again, from now on: what was due meanwhile is left out."""
    with guarded(verbose, None):
        _set_paused(name, False, as_json=as_json)


def _set_paused(name: str, paused: bool, *, as_json: bool) -> None:
    from mlops.schedules import store

    home, now = find_home(), datetime.now(UTC)
    stored = store.find(home, name)
    if stored.cluster:
        from mlops.schedules.cluster import set_active

        set_active(home, stored, not paused)
    stored.since = now if stored.paused and not paused else stored.since
    stored.paused = paused
    store.keep(home, stored)
    if as_json:
        console.write_json(_as_json(home, stored, now))
        return
    following = _next_time(stored, now)
    due = f"; it is due next {_shown(stored, following)}" if following is not None else ""
    console.print(f"schedule {name} is {'paused' if paused else 'active'}{due}")


@app.command()
def delete(name: Name, as_json: ResultAsJson = False, verbose: Verbose = False) -> None:
    """Delete a schedule, and what is noted of its due times. Its runs stay, and one that goes on does so."""
    with guarded(verbose, None):
        from mlops.schedules import store
        from rlft.errors import ConfigError

        home = find_home()
        try:
            stored = store.find(home, name)
        except ConfigError:  # it cannot be read
            stored = None
        if stored is not None and stored.cluster:
            from mlops.schedules.cluster import drop_from_cluster

            drop_from_cluster(home, stored)
        store.remove(home, name)
        if as_json:
            console.write_json({"name": name, "deleted": True})
            return
        console.print(f"schedule {name} is deleted")


@app.command(name="run-now")
def run_now(name: Name, as_json: ResultAsJson = False, verbose: Verbose = False) -> None:
    """Run what a schedule runs, now and here, whether or not there is a reason.

    It counts as a run of the schedule: what is new is told from it. The exit code is that of `rlft run`.
    """
    with guarded(verbose, None):
        home = find_home()
        stored = _kept_here(home, name)
        done: Firing = _watched(home, stored, lambda watch: watch.run_now(), sys.stderr if as_json else None)
        if as_json:
            console.write_json(done.model_dump(mode="json"))
        raise typer.Exit(done.codes[-1] if done.codes else int(done.state == "failed"))
