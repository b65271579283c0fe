"""A home with a schedule, a clock of the test's own, and runs that are written down instead of being made."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mlops.home.folder import Home
from mlops.schedules import store
from mlops.schedules.firings import Firing, firings_of
from mlops.schedules.scheduler import look
from mlops.schedules.watch import carry_out
from mlops.schedules.watching import Watch
from mlops.summary.file import failed, summary_text
from mlops.summary.sections import Promotion
from mlops.summary.summary import Summary

MONDAY = datetime(2026, 11, 23, 4, tzinfo=UTC)
IMPROVED = Summary(status="improved", pipeline_run_id="p", promotion=Promotion(name="demo", version="3", promoted=True))
CONTENT = {"name": "weekly", "config": "demo.yaml", "cron": "0 4 * * mon"}


@dataclass
class Scripted(Watch):
    """Writes down which commands would run, and gives each of them its code and its summary."""

    now: datetime = MONDAY
    codes: list[int] = field(default_factory=list)
    summaries: list[Summary] = field(default_factory=list)
    commands: list[list[str]] = field(default_factory=list)
    looks: dict | None = None
    look_code: int = 0
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock, self.pause, self.say = lambda: self.now, self._pass, self.said.append

    def _pass(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def call(self, command: list[str], folder: Path, lock: int) -> int:
        """What a process of this command would leave behind."""
        words = command[command.index("cli") + 1 :]
        if words[:2] == ["schedule", "look"]:
            if self.looks is None:
                return 1
            Path(words[words.index("--to") + 1]).write_text(json.dumps(self.looks))
            return self.look_code
        self.commands.append(words)
        code = self.codes.pop(0) if self.codes else 0
        summary = self.summaries.pop(0) if self.summaries else IMPROVED if not code else failed(IMPROVED, "it broke")
        Path(words[words.index("--summary") + 1]).write_text(summary_text(summary))
        return code


class Bench:
    """A home with a schedule, which a test looks at when it likes."""

    def __init__(self, place: Path) -> None:
        self.home = Home(place / ".rlft")
        self.place = place

    def apply(self, now: datetime = MONDAY - timedelta(days=1), **settings) -> store.Stored:
        """Apply the schedule with other settings."""
        return store.apply_schedule(self.home, CONTENT | settings, self.place, now)

    def look(self, now: datetime) -> list[Firing]:
        """Firings that nobody looks after, at this time."""
        return look(self.home, now)

    def at(self, now: datetime, **script) -> Scripted:
        """What happens at this time, if something looks."""
        watch = Scripted(self.home, now=now, **script)
        for firing in self.look(now):
            carry_out(watch, firing.id)
        return watch

    def firings(self, name: str = "weekly") -> list[Firing]:
        """All firings, the oldest first."""
        with store.opened(self.home) as opened:
            return firings_of(opened, name)[::-1]

    def states(self, name: str = "weekly") -> list[str]:
        """Their states."""
        return [firing.state for firing in self.firings(name)]


@pytest.fixture
def bench(tmp_path) -> Bench:
    return Bench(tmp_path)
