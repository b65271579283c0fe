"""`rlft report`: one page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import AnyRun, UsedStack, Verbose
from mlops.home.folder import find_home
from rlft.errors import ConfigError
from rlft.files import why_not_writable, write_file
from rlft.reporting.terminal import console


def report(
    run: AnyRun,
    to: Annotated[
        Path | None, typer.Option(help="The file to write, in place of one that is there. By default NAME.html.")
    ] = None,
    stack: UsedStack = None,
    verbose: Verbose = False,
) -> None:
    """Write one HTML page about a run: what came of it, curves, time, the best and the worst attempts, lineage."""
    with guarded(verbose, None):
        if to is not None and (problem := why_not_writable(to)):  # before anything is looked up
            raise ConfigError(problem, where=f"--to {to}", fix="let --to name another file")
        home = find_home()
        from mlops.runs.report import make_report
        from mlops.runs.results import open_run

        found = open_run(home, run, stack)
        file = to or Path(f"{found.name}.html")
        write_file(file, make_report(found))
        console.print(f"{file} ({file.stat().st_size / 1000:.0f} kB)")
