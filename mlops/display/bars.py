"""Shows the open stages of a run, outer ones first: bars in a terminal, else a line every half minute."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column

from mlops.display.pace import Stage
from mlops.display.terminal import Terminal, errors, styled

EVERY_SECONDS = 30.0
_LOOK_SECONDS = 1.0


class Display:
    """All open stages of this process, in one live display or in one line.

    Where full logs are asked for there are lines too: ZenML's own logs go past any display and would tear it.
    """

    def __init__(
        self,
        console: Terminal = errors,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self._console, self._clock, self._now = console, clock, now
        self._open: list[Stage] = []
        verbose = logging.getLogger("mlops").isEnabledFor(logging.DEBUG)
        self._bars = _Bars(console) if console.is_interactive and not verbose else None
        self._said = float("-inf")  # when the last line was printed, by the clock
        self._over = threading.Event()  # ends the thread that prints lines

    @contextmanager
    def stage(self, name: str) -> Iterator[Stage]:
        """Show a stage while the context is open; yields the `Progress` that takes its reports."""
        stage = Stage(name, self._clock)
        self._open.append(stage)
        if len(self._open) == 1:
            self._begin()
        bar = None if self._bars is None else self._bars.add_task(name, total=None, stage=stage)
        try:
            yield stage
        finally:
            if self._bars is not None and bar is not None:
                self._bars.remove_task(bar)
            self._open.remove(stage)
            if not self._open:
                self._end()

    def report(
        self, done: float, total: float | None, what: str, *, tokens: int | None = None, loss: float | None = None
    ) -> None:
        """Pass a report on to the stage that is innermost now; a `Progress`."""
        if stages := tuple(self._open):  # a copy, as another thread may close a stage meanwhile
            stages[-1](done, total, what, tokens=tokens, loss=loss)

    def look(self) -> None:
        """Print a line if half a minute has passed since the last one, or since the outermost stage began."""
        stages, now = tuple(self._open), self._clock()
        if stages and now - max(self._said, stages[0].began) >= EVERY_SECONDS:
            self._said = now
            line = "; ".join(stage.words(now=self._now()) for stage in stages)
            self._console.print(styled(line), soft_wrap=True, highlight=False)

    def _begin(self) -> None:
        if self._bars is not None:
            self._bars.start()
        else:
            self._over = threading.Event()
            threading.Thread(target=self._watch, args=(self._over,), name="rlft-progress", daemon=True).start()

    def _end(self) -> None:
        if self._bars is not None:
            self._bars.stop()
        self._over.set()

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(_LOOK_SECONDS):
            self.look()


class _Bars(Progress):
    """A bar for each open stage. Bars ask the stages four times a second, so that a report costs next to nothing."""

    def __init__(self, console: Terminal) -> None:
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(16),
            _Facts(table_column=Column(no_wrap=True)),
            console=console,
            transient=True,
            refresh_per_second=4,
            redirect_stdout=sys.stdout.isatty(),  # what goes to a file must get there, not into the display
        )

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the table, with every stage as it is now."""
        for task in self.tasks:
            stage: Stage = task.fields["stage"]
            task.completed, task.total = stage.done, stage.total
        yield self.make_tasks_table(self.tasks)


class _Facts(ProgressColumn):
    """What is known of a stage, in words."""

    def render(self, task: Task) -> RenderableType:
        """Return the facts, the most important first: what a narrow terminal has no room for is left out."""
        stage: Stage = task.fields["stage"]
        return styled(", ".join(stage.facts()))
