"""Hands the signals of a process on to the run that it has started, and notes them."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from mlops.runtime.signals import SIGNALS


class Signals:
    """Hands signals on to the process that goes on, which may have had them already, and notes the last in `caught`."""

    def __init__(self) -> None:
        self.caught = 0
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take a signal."""
        self.caught = number
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Take the place of what else handles signals, but for those that this process ignores."""
        before = {number: signal.getsignal(number) for number in SIGNALS}
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, self)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
