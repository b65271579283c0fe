"""Ctrl-C and SIGTERM: the process is left where it stands, and one that starts afresh says what became of the run.

An exception would be raised inside whatever statement is being run: in a transaction of sqlite, in a callback that
swallows it, in ZenML's handling of another error. A run that is killed anywhere can be resumed, so an interrupt is a
kill: `exec` ends all threads at once, and keeps the process id and the environment for `cli.interrupted`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
EXIT_CODE = 130


@dataclass
class Interrupt:
    """The handler of both signals, and what it tells its successor of the command that it ends.

    `started` is the command's beginning in seconds since the epoch; `run_name` is set once there may be a run.
    """

    summary: Path | None = None
    started: float = field(default_factory=time.time)
    run_name: str | None = None

    def install(self) -> None:
        """Handle the signals that this process does not ignore; a shell ignores SIGINT for what it runs in the back."""
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Become `cli.interrupted`. It finds both signals ignored, until it handles them itself."""
        ignore()
        with suppress(RuntimeError, ValueError, OSError):  # the interrupted statement may be writing to it
            if sys.stdout is not None:  # a daemon's is closed
                sys.stdout.flush()
        facts = {"summary": self.summary and str(self.summary), "started": self.started, "run_name": self.run_name}
        # -P: a folder of the user's called `pipelines` is not ours
        os.execv(sys.executable, [sys.executable, "-P", "-m", "cli.interrupted", json.dumps(facts)])


def ignore() -> None:
    """Ignore both signals from here on."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def installed() -> Interrupt | None:
    """The handler of this process, if `install` was called."""
    handlers = [signal.getsignal(number) for number in SIGNALS]
    return next((handler for handler in handlers if isinstance(handler, Interrupt)), None)


def keep_from_zenml() -> None:
    """Let steps leave an installed handler alone: ZenML's own asks its database in the middle of any statement."""
    if installed() is not None:
        from zenml.orchestrators import signal_handler

        signal_handler._SIGNALS = ()
