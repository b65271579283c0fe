"""`rlft prune`: removes old runs for good."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import DryRun, ResultAsJson, Verbose, Yes
from cli.removing import removable_runs, remove
from mlops.home.folder import find_home
from mlops.runs.listing import ListedRun
from rlft.errors import RlftError
from rlft.terminal import console

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


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
        remove(home, asked, console, resumable_too=failed, dry_run=dry_run, yes=yes, as_json=as_json)


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
