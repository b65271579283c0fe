"""Progress bars on the terminal; nothing where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pipelines.terminal import Terminal
from rlft.visible import visible


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar over `total` parts; call what it gives after each."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = Terminal(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(visible(what), total=total)
        yield lambda: bar.advance(task)
