"""`rlft delete` and `rlft prune`: they say what would go, ask, remove it for good, and say what went."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.guard import guarded
from cli.options import DryRun, ResultAsJson, Verbose, Yes
from mlops.home.databases import check_home
from mlops.home.folder import Home, find_home
from mlops.runs.listing import ListedRun, find_local, list_runs
from rlft.errors import RlftError
from rlft.reporting.bars import duration
from rlft.reporting.terminal import console, errors

if TYPE_CHECKING:
    from mlops.runs.removing import Plan

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def delete(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Names or ids of runs, or their beginnings.")],
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Remove runs from ZenML, MLflow and the disk. Registered versions stay, and what other runs use.

    A run that goes on, or whose version has an alias (champion, challenger), stays.
    """
    with guarded(verbose, None):
        home = find_home()
        there = removable_runs(home)
        asked = {find_local(home, name).name for name in runs}
        named = [run for run in there if run.name in asked]
        remove(home, named, resumable_too=True, dry_run=dry_run, yes=yes, as_json=as_json)


def prune(
    keep_last: Annotated[int | None, typer.Option(help="Keep this many of the newest runs.", min=0)] = None,
    older_than: Annotated[
        str | None, typer.Option(help="Remove only what began longer ago, such as 12h, 30d or 8w.")
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Remove runs, too, that failed or were killed and could be resumed.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Remove old runs from ZenML, MLflow and the disk. With both options a run goes that is old by both.

    Registered versions stay, what other runs use, runs that go on, and runs whose version has an alias.
    """
    with guarded(verbose, None):
        home = find_home()
        if keep_last is None and older_than is None:
            fix = "give --keep-last 10 or --older-than 30d, and --dry-run first"
            raise RlftError("it is not said what is old", where="rlft prune", fix=fix)
        age = None if older_than is None else read_age(older_than)
        asked = chosen_runs(removable_runs(home), keep_last=keep_last, older_than=age)
        remove(home, asked, resumable_too=failed, dry_run=dry_run, yes=yes, as_json=as_json)


def chosen_runs(runs: Sequence[ListedRun], *, keep_last: int | None, older_than: timedelta | None) -> list[ListedRun]:
    """Return the runs that are neither among the newest `keep_last` nor younger than `older_than`; `None` is no rule.

    `runs` come with the newest first.
    """
    now = datetime.now(UTC)
    old = runs if keep_last is None else runs[keep_last:]
    return [run for run in old if older_than is None or now - run.began > older_than]


def read_age(text: str) -> timedelta:
    """Return the time that `12h`, `30d` or `8w` means. Raises RlftError for another text."""
    found = re.fullmatch(r"([0-9]{1,5})([hdw])", text.strip(), re.ASCII)
    if found is None:
        raise RlftError(f"{text!r:.40} is no age", where="--older-than", fix="write 12h, 30d or 8w")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def removable_runs(home: Home) -> list[ListedRun]:
    """Return the runs of a home whose files are whole: else it cannot be known what runs share. Raises RlftError."""
    check_home(home)
    listing = list_runs(home)
    if listing.problems:
        raise RlftError("; ".join(listing.problems), fix="nothing is removed until both databases can be read")
    return listing.runs


def remove(home: Home, asked: list[ListedRun], *, resumable_too: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove runs after a question on the terminal, or say what would be removed. `as_json` says it to a program.

    Raises RlftError where nobody can be asked, and typer.Exit if a person does not agree.
    """
    from mlops.runs.removing import make_plan, remove_runs
    from mlops.stacks.stack import connect

    if asked:
        connect(home, None)
    plan = make_plan(home, asked, resumable_too=resumable_too)
    told = errors if as_json else console
    for run, reason in plan.kept:
        told.print(f"{run.name} stays: {reason}")
    for run in plan.runs:
        registered = f"; {' '.join(run.version)} stays in the registry" if run.version else ""
        told.print(
            f"{run.name}, {run.began.astimezone():%Y-%m-%d %H:%M}, {run.status}, {duration(run.seconds)}{registered}"
        )
    told.print(f"{_count(plan.runs)} to remove")
    removes = bool(plan.runs) and not dry_run
    if removes and not yes:
        if not sys.stdin.isatty():
            raise RlftError("nobody can be asked here", where="--yes", fix="look with --dry-run, then give --yes")
        if not typer.confirm("Remove them for good?", err=True):
            raise typer.Exit(1)
    done = remove_runs(home, plan) if removes else plan
    for run, reason in done.kept[len(plan.kept) :]:
        told.print(f"{run.name} stays: {reason}")
    if as_json:
        console.write_json(_to_json(done, removed=removes))
    elif removes:
        console.print(f"{_count(done.runs)} removed")
    elif plan.runs:
        console.print("nothing has been changed")


def _to_json(plan: Plan, *, removed: bool) -> dict[str, Any]:
    """Return what went, or would go, and what stays, each run by its name."""
    return {
        "removed": removed,
        "runs": [run.name for run in plan.runs],
        "kept": {run.name: reason for run, reason in plan.kept},
    }


def _count(runs: list[ListedRun]) -> str:
    return "1 run" if len(runs) == 1 else f"{len(runs)} runs"
