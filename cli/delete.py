"""`rlft delete`: removes single runs for good."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import DryRun, ResultAsJson, Verbose, Yes
from cli.removing import removable_runs, remove
from mlops.home.folder import find_home
from mlops.runs.listing import find_local
from rlft.terminal import console


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
        remove(home, named, console, resumable_too=True, dry_run=dry_run, yes=yes, as_json=as_json)
