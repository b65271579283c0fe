"""`rlft report`: one page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import Verbose
from mlops.display.terminal import console
from mlops.home.entries import check_entries
from mlops.home.folder import find_home


def report(
    run: Annotated[str, typer.Argument(help="Id or name of a run, or the beginning of either.")],
    to: Annotated[
        Path | None, typer.Option(help="The file to write, in place of one that is there. By default NAME.html.")
    ] = None,
    stack: Annotated[str | None, typer.Option(help="The ZenML stack that the run used, if any.")] = None,
    verbose: Verbose = False,
) -> None:
    """Write one HTML page about a run: what came of it, curves, time, the best and the worst attempts, lineage."""
    with guarded(verbose, None):
        home = find_home()
        check_entries(home)
        from mlops.stacks.stack import connect

        connect(home, stack)
        from mlops.runs.finding import find_run, name_of
        from mlops.stored.report import make_report
        from rlft.files import write_file

        found = find_run(run)
        file = to or Path(f"{name_of(found)}.html")
        write_file(file, make_report(home, str(found.id)))
        console.print(f"{file} ({file.stat().st_size / 1000:.0f} kB)")
