"""Shows the open stages of a run, outer ones first: bars in a terminal, else a line every half minute."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column

from rlft.reporting.terminal import Terminal, errors, styled

EVERY_SECONDS = 30.0
_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _Report:
    """A report, with the time `at` which it came."""

    at: float
    done: float
    total: float | None
    what: str
    tokens: int | None
    loss: float | None

    @property
    def counted(self) -> str:
        """How much is done of how much, as far as it is known."""
        if self.total is None:
            return f"{int(self.done):,} {self.what}" if self.done else self.what
        return (
            f"{int(self.done):,} of {int(self.total):,} {self.what}"
            if self.done
            else f"{int(self.total):,} {self.what}"
        )


class Stage:
    """An open stage: a `rlft.progress.Progress` that remembers reports. `clock` gives seconds.

    Its pace is that since the first report of what is being done: what was stored is reported as something else.
    """

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self.name, self.began = name, clock()
        self._clock = clock
        self._reports: tuple[_Report, _Report] | None = None  # the first and the last; replaced, for other threads

    def __call__(
        self, done: float, total: float | None, what: str, *, tokens: int | None = None, loss: float | None = None
    ) -> None:
        """Take a report; see `Progress`."""
        last = _Report(self._clock(), done, total, what, tokens, loss)
        goes_on = self._reports is not None and self._reports[1].what == what and self._reports[1].done <= done
        self._reports = (self._reports[0] if self._reports and goes_on else last, last)

    @property
    def done(self) -> float:
        """How much is done, as last reported."""
        return self._reports[1].done if self._reports else 0.0

    @property
    def total(self) -> float | None:
        """How much there is to do, as last reported; `None` if that is not known."""
        return self._reports[1].total if self._reports else None

    def facts(self) -> list[str]:
        """Return done and total, time left or spent, rates, loss: as far as known.

        A stage that is done shows no rates: they would contradict the whole time beside them, in which a model was
        loaded.
        """
        now = self._clock()
        spent = f"{duration(now - self.began)} so far"
        if self._reports is None:
            return [spent]
        first, last = self._reports
        seconds, done = last.at - first.at, last.done - first.done
        if not seconds or not done or (last.total is not None and last.done >= last.total):
            return [last.counted, spent, *_loss(last)]
        left = 0.0 if last.total is None else (last.total - last.done) * seconds / done - (now - last.at)
        # What is left of less than a second is over, or nobody knows how long it takes: the time spent is shown.
        facts = [last.counted, f"{duration(left)} left" if left >= 1 else spent]
        if last.what != "s":
            facts.append(f"{_rate(done / seconds)} {last.what.split()[0]}/s")
        if last.tokens and (tokens := last.tokens - (first.tokens or 0)) > 0:
            facts.append(f"{_rate(tokens / seconds)} tokens/s")
        return [*facts, *_loss(last)]

    def words(self) -> str:
        """Return the stage's name and facts in one line."""
        return f"{self.name}: {', '.join(self.facts())}"


def _loss(last: _Report) -> list[str]:
    return [] if last.loss is None else [f"loss {last.loss:.4g}"]


class Display:
    """All open stages of this process, in one live display or in one line.

    Where full logs are asked for there are lines too: ZenML's own logs go past any display and would tear it.
    """

    def __init__(
        self,
        console: Terminal = errors,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console, self._clock = console, clock
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
            line = "; ".join(stage.words() for stage in stages)
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


def duration(seconds: float) -> str:
    """Return a time in two units at most, such as `45 s`, `12 min` or `2 h 5 min`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 100 else f"{per_second:.2g}"
