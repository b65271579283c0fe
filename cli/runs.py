"""`rlft runs`: the runs of the home, what they came to and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

import typer
from rich.cells import cell_len
from rich.padding import Padding
from rich.table import Table

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from mlops.home.folder import find_home
from mlops.runs.listing import ListedRun, Listing, list_runs
from rlft.reporting.bars import duration
from rlft.reporting.terminal import Terminal, console, errors, styled
from rlft.texts.characters import visible

_COLOURS = {"improved": "green", "failed": "red", "killed": "red", "interrupted": "red", "running": "cyan"}


def runs(
    limit: Annotated[int, typer.Option(help="List at most so many runs, the newest first; 0 lists all.", min=0)] = 20,
    as_json: ResultAsJson = False,
    stack: Annotated[
        str | None, typer.Option(help="List the runs of everybody on this ZenML stack, and not those in .rlft/.")
    ] = None,
    verbose: Verbose = False,
) -> None:
    """List the runs in .rlft/: when they began, what became of them, what they gained and cost, and their versions."""
    with guarded(verbose, None):
        listing = list_runs(find_home()) if stack is None else _on_stack(stack, limit)
        for problem in (*listing.problems, *listing.damaged):
            errors.print(styled("warning", "yellow"), problem)
        if as_json:
            console.write_json([run.as_json() for run in listing.runs])
        else:
            show_runs(console, listing.runs, limit)


def _on_stack(stack: str, limit: int) -> Listing:
    from mlops.stacks.stack import connect

    home = find_home()
    connect(home, stack)
    from mlops.runs.shared import list_shared_runs  # ZenML takes seconds to import

    return list_shared_runs(home, limit)


def show_runs(console: Terminal, runs: list[ListedRun], limit: int) -> None:
    """Print the newest `limit` runs (0: all): for each its name, and below it what it came to, in columns."""
    if not runs:
        console.print(f"no runs in {find_home().root}; `rlft run configs/demo.yaml` starts one")
        return
    shown = runs[:limit] if limit else runs
    cells = [[cell(run) for cell in _COLUMNS.values()] for run in shown]
    widths = [width_of(texts) for texts in zip(_COLUMNS, *cells, strict=True)]
    console.print(_row(_COLUMNS, widths, ["bold"] * len(_COLUMNS)))
    for run, texts in zip(shown, cells, strict=True):
        console.print(run.name, soft_wrap=True)
        console.print(_row(texts, widths, [_style(run, heading) for heading in _COLUMNS]))
    for run in (each for each in shown if each.status == "interrupted"):
        way_on = f"this goes on with it: {run.again}" if run.again else "giving its command again goes on with it"
        console.print(f"{run.name} was interrupted; {way_on}", soft_wrap=True)
    if len(shown) < len(runs):
        console.print(f"{len(shown)} of {len(runs)} runs; --limit 0 lists all")


def width_of(texts: Iterable[str]) -> int:
    """Return the columns of a terminal that the widest line of some texts takes."""
    return max(cell_len(visible(line)) for text in texts for line in text.split("\n"))


def _row(texts: Iterable[str], widths: Iterable[int], styles: Iterable[str]) -> Padding:
    """Return what stands below a run's name, a little to its right: columns of these widths."""
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    for width in widths:
        table.add_column(width=width, overflow="fold")
    table.add_row(*map(styled, texts, styles))
    return Padding(table, (0, 0, 0, 2))


def began(run: ListedRun) -> str:
    """Return the day and the time of day when it began, as the user's clock has them."""
    return f"{run.began.astimezone():%Y-%m-%d\n%H:%M}"


def status(run: ListedRun) -> str:
    """Return what became of it, and of what kind it is if it does not train."""
    return run.status if run.kind == "training" else f"{run.status}\n{run.kind}"


def _style(run: ListedRun, heading: str) -> str:
    return _COLOURS.get(run.status, "") if heading == "status" else ""


def gain(run: ListedRun) -> str:
    """Return the accuracy (or other metric) on `test` before and after, and the difference with its 95 % interval."""
    if run.summary is None or (found := run.summary.difference) is None:
        return "-"
    metric = "" if found.metric == "accuracy" else f"{found.metric} "
    return f"{metric}{found.before:.2f} → {found.after:.2f}\n{found.mean:+.2f} [{found.low:+.2f}, {found.high:+.2f}]"


def cost(run: ListedRun) -> str:
    """Return wall time, hours of GPUs if there were any, and sampled tokens."""
    lines = [duration(run.seconds)]
    if run.gpu_hours:
        lines.append(f"{run.gpu_hours:.2g} GPU h")
    if run.tokens:
        lines.append(f"{_short(run.tokens)} tokens")
    return "\n".join(lines)


def version(run: ListedRun) -> str:
    """Return the registered version."""
    return "-" if run.version is None else " ".join(run.version)


_COLUMNS: dict[str, Callable[[ListedRun], str]] = {
    "status": status,
    "before → after": gain,
    "began": began,
    "cost": cost,
    "version": version,
}


def _short(count: int) -> str:
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f}{letter}"
    return str(count)
