"""Shows the open stages of a run, outer ones first: bars in a terminal, else a line every half minute."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column

from rlft.reporting.terminal import Terminal, errors, styled

EVERY_SECONDS = 30.0
_LOOK_SECONDS = 1.0
_SAMPLES = 64  # reports that are kept at most


@dataclass(frozen=True, slots=True)
class _Sample:
    """A report, with the time `at` which it came."""

    at: float
    done: float
    total: float | None
    what: str
    tokens: int | None
    loss: float | None

    @property
    def is_done(self) -> bool:
        return self.total is not None and self.done >= self.total


class Stage:
    """An open stage: a `rlft.progress.Progress` that remembers reports. `clock` gives seconds.

    Its pace is that of the later half of the time, as steps from the cache or before a resume, which took no time, say
    nothing of the rest. So some earlier reports are kept, spread over the time.
    """

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self.name, self.began = name, clock()
        self._clock = clock
        self._samples: list[_Sample] = []  # of the part that is going on; replaced as a whole, for other threads

    def __call__(
        self, done: float, total: float | None, what: str, *, tokens: int | None = None, loss: float | None = None
    ) -> None:
        """Take a report; see `Progress`."""
        before = self._samples
        if before and (before[-1].what != what or before[-1].done > done):
            before = []
        if len(before) == _SAMPLES:
            before = _thinned(before)
        self._samples = [*before, _Sample(self._clock(), done, total, what, tokens, loss)]

    @property
    def done(self) -> float:
        """How much is done, as last reported."""
        return self._samples[-1].done if self._samples else 0.0

    @property
    def total(self) -> float | None:
        """How much there is to do, as last reported; `None` if that is not known."""
        return self._samples[-1].total if self._samples else None

    def facts(self, *, now: datetime | None = None) -> list[str]:
        """Return done and total, time left (and until when, given `now`) or spent, rates, loss: as far as known.

        The rates are those of the later half of the time. A stage that is done shows none: they would contradict the
        whole time beside them, in which a model was loaded.
        """
        samples = self._samples
        spent = f"{duration(self._clock() - self.began)} so far"
        if not samples:
            return [spent]
        last = samples[-1]
        window = _window(samples)
        seconds = None if window is None else window[1].at - window[0].at
        per_second = None if window is None or not seconds else (window[1].done - window[0].done) / seconds
        left = self._left(last, per_second)
        # What is left of less than a second is over, or nobody knows how long it takes: the time spent is shown.
        facts = [_counted(last), _remaining(left, now) if left and left >= 1 else spent]
        if window and per_second and not last.is_done:
            if last.what != "s":
                facts.append(f"{_rate(per_second)} {last.what.split()[0]}/s")
            if window[1].tokens and seconds and (tokens := window[1].tokens - (window[0].tokens or 0)) > 0:
                facts.append(f"{_rate(tokens / seconds)} tokens/s")
        if last.loss is not None:
            facts.append(f"loss {last.loss:.4g}")
        return facts

    def words(self, *, now: datetime | None = None) -> str:
        """Return the stage's name and facts in one line."""
        return f"{self.name}: {', '.join(self.facts(now=now))}"

    def _left(self, last: _Sample, per_second: float | None) -> float | None:
        """Return the seconds that are left at this rate, counted from now; `None` if that is not known."""
        if last.total is None or not per_second or last.is_done:
            return None
        return max((last.total - last.done) / per_second - (self._clock() - last.at), 0.0)


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


def duration(seconds: float) -> str:
    """Return a time in two units at most, such as `45 s`, `12 min` or `2 h 5 min`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _window(samples: list[_Sample]) -> tuple[_Sample, _Sample] | None:
    """Return the last report of the first half of the time, and the last of all; `None` if no time lies between."""
    last = samples[-1]
    middle = (samples[0].at + last.at) / 2
    first = next(sample for sample in reversed(samples) if sample.at <= middle)
    return (first, last) if last.at > first.at else None


def _thinned(samples: list[_Sample]) -> list[_Sample]:
    """Return at most half of the reports, about equally far apart in time; the first and the last stay."""
    gap = (samples[-1].at - samples[0].at) * 2 / (_SAMPLES - 4)  # fits in (_SAMPLES - 4) / 2 times
    kept = samples[:1]
    for sample in samples[1:-1]:
        if sample.at - kept[-1].at >= gap > 0:
            kept.append(sample)
    return [*kept, samples[-1]]


def _counted(last: _Sample) -> str:
    if last.total is None:
        return f"{int(last.done):,} {last.what}" if last.done else last.what
    return f"{int(last.done):,} of {int(last.total):,} {last.what}"


def _remaining(left: float, now: datetime | None) -> str:
    until = "" if now is None or left < 60 else f" until about {now + timedelta(seconds=left):%H:%M}"
    return f"{duration(left)} left{until}"


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 100 else f"{per_second:.2g}"
