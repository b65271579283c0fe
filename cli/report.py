"""`rlft report`: one page about a run."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import AnyRun, UsedStack, Verbose
from mlops.home.folder import find_home
from rlft.errors import ConfigError
from rlft.files import why_not_writable
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
        if to is not None:
            _check_target(to)  # before anything is looked up
        home = find_home()
        from mlops.runs.report import make_report
        from mlops.runs.results import open_run
        from rlft.files import write_file

        found = open_run(home, run, stack)
        file = to or Path(f"{found.name}.html")
        _check_target(file)
        write_file(file, make_report(found))
        console.print(f"{file} ({file.stat().st_size / 1000:.0f} kB)")


def _check_target(file: Path) -> None:
    """Raise ConfigError if the page cannot be written there; no folder is made, as a wrong one is a slip."""
    if file.is_dir():
        fix = f"name a file in it, such as {file / 'run.html'}"
        raise ConfigError("this is a folder, not a file", where=f"--to {file}", fix=fix)
    if not file.parent.is_dir():
        fix = f"make it (`mkdir -p {quote(str(file.parent))}`), or let --to name another file"
        raise ConfigError(f"there is no folder {file.parent}", where=f"--to {file}", fix=fix)
    if problem := why_not_writable(file):
        raise ConfigError(problem, where=f"--to {file}", fix="let --to name another file")
