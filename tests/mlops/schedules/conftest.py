"""A home with a schedule, a clock of the test's own, and runs that are written down instead of being made."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mlops.home.folder import Home
from mlops.schedules import store
from mlops.schedules.firing import Watch
from mlops.schedules.store import Firing, Stored, find, keep
from mlops.summary.file import failed, summary_text
from mlops.summary.summary import Promotion, Summary

MONDAY = datetime(2026, 11, 23, 4, tzinfo=UTC)
IMPROVED = Summary(status="improved", pipeline_run_id="p", promotion=Promotion(name="demo", version="3", promoted=True))
CONTENT = {"name": "weekly", "config": "demo.yaml", "cron": "0 4 * * mon"}


@dataclass
class Scripted(Watch):
    """Writes down which commands would run, and gives each of them its code and its summary.

    Each takes so many `minutes`, or none. A code of `None` is a kill of this process while its run goes on.
    """

    now: datetime = MONDAY
    codes: list[int | None] = field(default_factory=list)
    summaries: list[Summary | dict | None] = field(default_factory=list)
    minutes: list[float] = field(default_factory=list)
    commands: list[list[str]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock, self.sleep, self.say = lambda: self.now, self._pass, self.said.append

    def _pass(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def call(self, *words: str) -> int:
        """What a process of this command would leave behind."""
        self.commands.append(list(words))
        self._pass(60 * self.minutes.pop(0) if self.minutes else 0)
        code = self.codes.pop(0) if self.codes else 0
        if code is None:
            raise KeyboardInterrupt
        summary = self.summaries.pop(0) if self.summaries else IMPROVED if not code else failed(IMPROVED, "it broke")
        if summary is not None:
            text = json.dumps(summary) if isinstance(summary, dict) else summary_text(summary)
            Path(words[words.index("--summary") + 1]).parent.mkdir(exist_ok=True)
            Path(words[words.index("--summary") + 1]).write_text(text)
        return code


class Bench:
    """A home with a schedule, which a test looks at when it likes."""

    def __init__(self, place: Path) -> None:
        self.home = Home(place / ".rlft")
        self.place = place

    def apply(self, now: datetime = MONDAY - timedelta(days=1), **settings) -> Stored:
        """Apply the schedule with other settings."""
        keep(self.home, Stored(content=CONTENT | settings, folder=self.place, since=now))
        return find(self.home, settings.get("name", "weekly"))

    def watch(self, now: datetime = MONDAY, **script) -> Scripted:
        """What looks after the schedule at this time."""
        return Scripted(self.home, find(self.home, "weekly"), now=now, **script)

    def at(self, now: datetime, **script) -> Scripted:
        """What happens at this time, if something looks."""
        watch = self.watch(now, **script)
        watch.look()
        return watch

    def firings(self) -> list[Firing]:
        """What came of all due times, the oldest first."""
        return self.state.past[::-1]

    def states(self) -> list[str]:
        """What came of them, in a word."""
        return [firing.state for firing in self.firings()]

    @property
    def state(self) -> store.State:
        """What the schedule has seen."""
        return store.state_of(self.home, "weekly")


@pytest.fixture
def bench(tmp_path, monkeypatch) -> Bench:
    monkeypatch.chdir(tmp_path)
    return Bench(tmp_path)
