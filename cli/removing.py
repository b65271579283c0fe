"""What `rlft delete` and `rlft prune` share: they say what would go, ask, remove it, and say what went."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from cli.runs import duration
from mlops.home.databases import MLFLOW, check_home
from mlops.home.folder import Home
from mlops.runs.listing import ListedRun, list_runs, note_versions
from rlft.errors import RlftError
from rlft.terminal import Terminal, errors, styled

if TYPE_CHECKING:
    from mlops.runs.removing import Plan


def remove(
    home: Home,
    asked: list[ListedRun],
    console: Terminal,
    *,
    resumable_too: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool = False,
) -> None:
    """Remove runs after a question on the terminal, or say what would be removed. `as_json` says it to a program.

    Raises RlftError where nobody can be asked.
    """
    from mlops.runs.removing import make_plan, remove_runs
    from mlops.stacks.stack import connect

    if asked:
        connect(home, None)
    plan = make_plan(home, asked, resumable_too=resumable_too)
    if not as_json:
        _show(plan, home, console)
    if dry_run or not plan.runs:
        if as_json:
            console.write_json(_to_json(plan, removed=False))
        elif plan.runs:
            said = f"{_count(plan.runs)} would be removed, which frees {megabytes(plan.bytes)}"
            console.print(f"{said}; nothing has been changed")
        return
    if not yes:
        _ask(plan, partial(_show, plan, home, errors) if as_json else None)
    done = remove_runs(home, plan)
    if as_json:
        console.write_json(_to_json(done, removed=True))
        return
    for run, reason in done.kept[len(plan.kept) :]:
        console.print(f"{run.name} stays: {reason}")
    console.print(f"{_count(done.runs)} removed, {megabytes(done.bytes)} freed")


def _show(plan: Plan, home: Home, console: Terminal) -> None:
    """Print what stays and why, and what goes."""
    for run, reason in plan.kept:
        console.print(f"{run.name} stays: {reason}")
    for place in plan.elsewhere:
        console.print(f"{place} stays: it lies outside {home.root}")
    for run in plan.runs:
        registered = f"; {' '.join(run.version)} stays in the registry" if run.version else ""
        console.print(
            f"{run.name}, {run.began.astimezone():%Y-%m-%d %H:%M}, {run.status}, {duration(run.seconds)}{registered}"
        )
    if not plan.runs:
        console.print("nothing to remove")


def _ask(plan: Plan, show: Callable[[], None] | None) -> None:
    """Return if a person agrees, who has seen what goes by `show`, if not before. Raises typer.Exit if not.

    Raises RlftError if nobody is there.
    """
    if not sys.stdin.isatty():
        raise RlftError("nobody can be asked here", where="--yes", fix="look with --dry-run, then give --yes")
    if show is not None:
        show()
    said = f"{_count(plan.runs)} will be removed for good, which frees {megabytes(plan.bytes)}."
    errors.print(styled(said, "yellow"))
    if not typer.confirm("Remove them?", err=True):
        raise typer.Exit(1)


def _to_json(plan: Plan, *, removed: bool) -> dict[str, Any]:
    """Return what went, or would go, and what stays, each run by its name."""
    return {
        "removed": removed,
        "runs": [run.name for run in plan.runs],
        "kept": {run.name: reason for run, reason in plan.kept},
        "outside": plan.elsewhere,
        "bytes": plan.bytes,
    }


def megabytes(count: int) -> str:
    """Return a number of bytes in MB, or in GB from 1000 MB on."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _count(runs: list[ListedRun]) -> str:
    return "1 run" if len(runs) == 1 else f"{len(runs)} runs"


def removable_runs(home: Home) -> list[ListedRun]:
    """Return the runs of a home whose databases are whole: else it cannot be known what runs share.

    Nothing is written before they are looked at, since writing hides damage. Raises RlftError.
    """
    check_home(home)
    if MLFLOW.file(home).is_file():
        from mlops.tracking.address import answering

        with answering(home.tracking_uri):  # an alias may have been set in MLflow itself
            note_versions(home)
    listing = list_runs(home)
    if listing.problems:
        raise RlftError("; ".join(listing.problems), fix="nothing is removed until both databases can be read")
    return listing.runs
