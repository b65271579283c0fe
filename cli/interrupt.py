"""What Ctrl-C and SIGTERM do: they replace the process by `cli.interrupted`, which says what became of the run.

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
    """The handler of both signals. It passes what it knows of the command on to `cli.interrupted`.

    `summary` is the file that `--summary` names, `started` the command's beginning in seconds since the epoch, and
    `run_name` the name of its run, set once there may be a run.
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
        """Replace this process by `cli.interrupted`, which starts with both signals ignored."""
        ignore()
        # exec discards what is still in Python's buffer. The interrupted statement may be writing to it (RuntimeError).
        with suppress(RuntimeError, ValueError, OSError):
            if sys.stdout is not None:  # it is None in a process that was started without one
                sys.stdout.flush()
        facts = {"summary": self.summary and str(self.summary), "started": self.started, "run_name": self.run_name}
        # With -P nothing is imported from the working directory, where the user may have a folder `pipelines`.
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
    """Keep ZenML from replacing an installed handler by its own while a step runs.

    ZenML's handler asks its database in the middle of whatever statement was interrupted, which may be one of that
    database's own transactions.
    """
    if installed() is not None:
        from zenml.orchestrators import signal_handler

        signal_handler._SIGNALS = ()  # the signals that it handles; ZenML has no setting for it
