"""What `rlft delete` and `rlft prune` share: they say what would go, ask, remove it, and say what went."""

from __future__ import annotations

import sys

import typer

from cli.runs import duration
from mlops.display.terminal import Terminal, errors, styled
from mlops.home.faults import check_home
from mlops.home.folder import Home
from mlops.runs.listing import ListedRun, list_runs
from rlft.errors import RlftError


def remove(
    home: Home, asked: list[ListedRun], console: Terminal, *, resumable_too: bool, dry_run: bool, yes: bool
) -> None:
    """Remove runs after a question on the terminal, or say what would be removed.

    A removal that was cut short is ended without one: it was asked for before. Raises RlftError where nobody can be
    asked.
    """
    from mlops.runs.removal import remove_runs
    from mlops.runs.removal_note import unfinished_removal
    from mlops.runs.removal_plan import make_plan

    plan = make_plan(home, asked, resumable_too=resumable_too)
    left = unfinished_removal(home)
    for run, reason in plan.kept:
        console.print(f"{run.name} stays: {reason}")
    for place in plan.elsewhere:
        console.print(f"{place} stays: it lies outside {home.root}")
    for run in plan.runs:
        registered = f"; {' '.join(run.version)} stays in the registry" if run.version else ""
        console.print(
            f"{run.name}, {run.began.astimezone():%Y-%m-%d %H:%M}, {run.status}, {duration(run.seconds)}{registered}"
        )
    if left is not None:
        name = f"the removal of {left.name}" if left.name else "a removal that had removed nothing yet"
        console.print(f"{name} was cut short, and is ended by this command")
    if not plan.runs and left is None:
        console.print("nothing to remove")
        return
    size = megabytes(plan.bytes)
    if dry_run:
        console.print(f"{_count(plan.runs)} would be removed, which frees {size}; nothing has been changed")
        return
    if plan.runs and not yes:
        if not sys.stdin.isatty():
            raise RlftError("nobody can be asked here", where="--yes", fix="look with --dry-run, then give --yes")
        errors.print(styled(f"{_count(plan.runs)} will be removed for good, which frees {size}.", "yellow"))
        if not typer.confirm("Remove them?"):
            raise typer.Exit(1)
    done = remove_runs(home, plan)
    for run, reason in done.kept[len(plan.kept) :]:
        console.print(f"{run.name} stays: {reason}")
    if left is not None:
        console.print(f"the removal of {left.name} has ended")
    console.print(f"{_count(done.runs)} removed, {megabytes(done.bytes)} freed")


def megabytes(count: int) -> str:
    """Return a number of bytes in MB, or in GB from 1000 MB on."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _count(runs: list[ListedRun]) -> str:
    return "1 run" if len(runs) == 1 else f"{len(runs)} runs"


def removable_runs(home: Home) -> list[ListedRun]:
    """Return the runs of a home whose databases are whole: else it cannot be known what runs share.

    Nothing is written before they are looked at, since writing hides damage. Raises RlftError.
    """
    from mlops.stacks.stack import settle_home

    check_home(home)
    settle_home(home)
    listing = list_runs(home)
    if listing.problems:
        raise RlftError("; ".join(listing.problems), fix="nothing is removed until both databases can be read")
    return listing.runs


def find_one(runs: list[ListedRun], asked: str) -> ListedRun:
    """Return the run that a name or id means. Raises RlftError if there is none or several."""
    from mlops.runs.listing import find_listed
    from mlops.runs.unknown import unknown_run

    found = find_listed(runs, asked)
    if len(found) != 1:
        raise unknown_run(asked, [run.name for run in runs], [run.name for run in found])
    return found[0]
