"""`rlft schedule`: what runs by itself, when, and why."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from mlops.home.folder import Home, find_home
from rlft.reporting.terminal import console, errors, styled

if TYPE_CHECKING:
    from mlops.schedules.store import Firing, Stored

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Train again when there is a reason, without anyone watching.",
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.")]
_COLOURS = {"failed": "red", "running": "cyan"}


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
        from mlops.schedules.settings import load_schedule, overrides_of
        from rlft.config.file import load_config, load_suite

        home = find_home()
        schedule, content = load_schedule(file)
        load_config(Path(schedule.config), overrides_of(schedule))
        if schedule.when.score_below is not None:
            load_suite(Path(schedule.when.score_below.suite))
        if problem := check_notify(schedule.notify):
            said = f"{problem}: nobody is told there unless it is set rightly for the run"
            errors.print(styled("warning", "yellow"), said)
        before = store.find(home, schedule.name) if schedule.name in store.names_of(home) else None
        stored = store.Stored(content=content, folder=Path.cwd(), since=datetime.now(UTC))
        if before is not None and all(before.content.get(key) == content.get(key) for key in ("cron", "timezone")):
            stored.since = before.since  # what is due by them still is
        if schedule.stack is not None or (before and before.cluster):
            from mlops.schedules.cluster import keep_in_cluster

            stored.cluster = keep_in_cluster(home, stored, before, _submit)
        store.keep(home, stored)
        if as_json:
            console.write_json(_as_json(home, stored))
            return
        console.print(f"schedule {stored.name} is {'changed' if before else 'made'}")
        begins = f"the cluster keeps it, as the ZenML schedule {stored.cluster}"
        if not stored.cluster:
            begins = "`rlft schedule run` must be going then; `rlft schedule lines` prints what begins it by itself"
        console.print(f"it is due next {_shown(stored, _next(stored))}\n{begins}")


def _submit(options: dict[str, Any], arguments: dict[str, Any]) -> None:
    from pipelines.train import train

    train.with_options(**options)(**arguments)


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
    with guarded(verbose, None) as begun:
        from mlops.schedules.firing import Watch, wait_and_start
        from mlops.schedules.store import all_schedules, find

        home, begun.repeated = find_home(), True
        found = [find(home, name) for name in names or []] or all_schedules(home)
        if not once:
            console.print(f"waiting for the schedules of {home.root}; Ctrl-C ends this, and no run", soft_wrap=True)
            wait_and_start(home, names or ())
        done = [Watch(home, each, say=lambda text: errors.print(text, soft_wrap=True)).look() for each in found]
        if not any(done):
            console.print("nothing is due")
        raise typer.Exit(int(any(firing is not None and firing.state == "failed" for firing in done)))


@app.command()
def lines(verbose: Verbose = False) -> None:
    """Print a line for a crontab and a unit for systemd: either begins `rlft schedule run` with the machine.

    Nothing is written or installed.
    """
    with guarded(verbose, None):
        from mlops.schedules.firing import crontab_line, systemd_unit

        told = "to ~/.config/systemd/user/rlft-schedules.service, and call"
        console.print(f"# with cron: add this line by `crontab -e`\n{crontab_line(find_home())}\n", soft_wrap=True)
        console.print(f"# with systemd: write this {told}", soft_wrap=True)
        console.print("# systemctl --user enable --now rlft-schedules && loginctl enable-linger", soft_wrap=True)
        console.print(systemd_unit(find_home()), soft_wrap=True)


@app.command(name="list")
def list_schedules(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Schedule whose due times are listed, the newest first.")
    ] = None,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """List the schedules: when each is due next, and what came of the last time. With NAME list what came of each."""
    with guarded(verbose, None):
        from mlops.schedules.store import all_schedules, find

        home = find_home()
        found = [find(home, name)] if name else all_schedules(home)
        if as_json:
            told = [_as_json(home, stored, whole=name is not None) for stored in found]
            console.write_json(told[0] if name else told)
            return
        columns = ["due"] if name else ["schedule", "next", "last"]
        headings = (Column(each, overflow="fold") for each in [*columns, "run", "what came of it"])
        table = Table(*headings, box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for stored in found:
            times = _told(home, stored)
            if name:
                for each in times:
                    table.add_row(_shown(stored, each.due), each.run or "-", _said(each))
                continue
            last = (_shown(stored, times[0].due), times[0].run or "-", _said(times[0])) if times else ("-",) * 3
            table.add_row(stored.name, _shown(stored, _next(stored)), *last)
        if found and table.rows:
            console.print(table)
            return
        empty = f"{name} has not been due yet" if name else f"no schedules in {home.root}"
        console.print(empty if name else f"{empty}; `rlft schedule apply FILE` makes one", soft_wrap=True)


def _told(home: Home, stored: Stored) -> list[Firing]:
    """Return what came of the due times of a schedule, the newest first, and before them the run that goes on."""
    from mlops.schedules.store import is_running, state_of

    state = state_of(home, stored.name)
    if state.running is None:
        return state.past
    cut = "" if is_running(home, stored.name) else "; it was cut short, and goes on at the next look"
    return [state.running.model_copy(update={"said": f"{state.running.reason}{cut}"}), *state.past]


def _said(firing: Firing) -> Any:
    text = f"running: {firing.said}" if firing.state == "running" else firing.said
    return styled(text, _COLOURS.get(firing.state, ""))


def _as_json(home: Home, stored: Stored, *, whole: bool = False) -> dict[str, Any]:
    """Return a schedule as `--json` prints it; `whole` with all its due times."""
    from mlops.schedules.store import is_running, state_of

    past = state_of(home, stored.name).past
    firings = [each.model_dump(mode="json") for each in past]
    return {
        **stored.schedule.model_dump(mode="json", include={"name", "config", "cron", "timezone", "stack"}),
        **stored.model_dump(mode="json", include={"folder", "since", "cluster"}),
        "when": stored.schedule.when.model_dump(exclude_none=True) or "always",
        "state": "running" if is_running(home, stored.name) else "active",
        "next": _next(stored).isoformat(timespec="seconds"),
        "last": next(iter(firings), None),
        "last_run": next((each for each in firings if each["run"] is not None), None),
        **({"firings": firings} if whole else {}),
    }


def _next(stored: Stored) -> datetime:
    """Return when a schedule is due next, in UTC."""
    following = stored.schedule.trigger.get_next_fire_time(None, datetime.now(UTC))
    assert following is not None  # cron that is never due is refused
    return following.astimezone(UTC)


def _shown(stored: Stored, moment: datetime) -> str:
    return f"{moment.astimezone(stored.schedule.timezone):%a %Y-%m-%d %H:%M %Z}"


@app.command()
def delete(name: Name, verbose: Verbose = False) -> None:
    """Delete a schedule, and what is noted of its due times. Its runs stay, and one that goes on does so."""
    with guarded(verbose, None):
        from mlops.schedules.store import find, remove

        home = find_home()
        if (stored := find(home, name)).cluster:
            from mlops.schedules.cluster import drop_from_cluster

            drop_from_cluster(home, stored)
        remove(home, name)
        console.print(f"schedule {name} is deleted")
