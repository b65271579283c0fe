"""What one who looks after a firing works with: the store, a clock, signals, and the processes that it starts."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from mlops.home.folder import Home
from mlops.runtime.handed_on import Signals
from mlops.schedules import store
from mlops.schedules.firings import Firing, change
from mlops.schedules.starting import environment
from mlops.schedules.store import Stored
from rlft.errors import RlftError
from rlft.schedule.tries import UNUSABLE

PAUSE_SECONDS = 1.0


class ScheduleGoneError(Exception):
    """The schedule was deleted while its run went on: nothing more is noted."""


@dataclass
class Watch:
    """What one who looks after a firing works with; `clock` and `pause` are the test's own in tests.

    `output` is where the processes write; `None` for this process's own.
    """

    home: Home
    signals: Signals = field(default_factory=Signals)
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    pause: Callable[[float], None] = time.sleep
    say: Callable[[str], None] = lambda text: None
    output: IO[Any] | None = None

    @property
    def is_ended(self) -> bool:
        """Whether a signal asks this process to end. Ctrl-C ends its run instead, by which the firing is over."""
        return self.signals.caught in (signal.SIGTERM, signal.SIGHUP)

    def call(self, command: list[str], folder: Path, lock: int) -> int:
        """Run a command that inherits the lock, and return its exit code as shells have it; 2 if it cannot begin."""
        try:
            done = subprocess.Popen(
                command,
                cwd=folder,
                env=environment(self.home),
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                stderr=self.output and subprocess.STDOUT,
                pass_fds=(lock,),
            )
        except OSError as cause:  # the folder in which the schedule was applied is gone, say
            self.say(f"nothing can be run in {folder}: {cause.strerror}. Apply the schedule where its files are")
            return UNUSABLE
        self.signals.process = done
        if self.signals.caught:  # it came before there was a process to hand it on to
            done.send_signal(self.signals.caught)
        code = done.wait()
        self.signals.process = None
        return code if code >= 0 else 128 - code

    def wait_until(self, moment: datetime) -> None:
        """Wait until a moment, or until a signal comes."""
        while not self.signals.caught and (seconds := (moment - self.clock()).total_seconds()) > 0:
            self.pause(min(PAUSE_SECONDS, seconds))

    def change(self, firing: Firing, **values: Any) -> Firing:
        """Change a firing in the store. Raises ScheduleGoneError if the schedule was deleted meanwhile."""
        with store.opened(self.home) as opened:
            found = change(opened, firing.id, **values)
        if found is None:
            raise ScheduleGoneError
        return found

    def stored(self, firing: Firing) -> Stored:
        """Return the schedule of a firing as it is now. Raises ScheduleGoneError if it was deleted."""
        with store.opened(self.home) as opened:
            try:
                return store.find(opened, firing.schedule)
            except RlftError:
                raise ScheduleGoneError from None
