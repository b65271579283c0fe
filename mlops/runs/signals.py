"""What Ctrl-C, SIGTERM and a closed terminal do: they raise `Interrupted` in the main thread of a command.

Libraries may make another exception of it, so whatever comes out of a command after a signal counts as the interrupt
(`cli.guard`). A run that is killed anywhere can be resumed; the exception gives it time to write down what it has come
to. ZenML has handlers of its own while a step runs, which ask its database in the middle of whatever statement was
interrupted: `listen` puts these back, and each step of rlft's calls it first.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import psutil

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POD_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_CHILDREN_SECONDS = 2.0  # that children have to end after SIGTERM, and after SIGKILL
LATE_SECONDS = 30.0  # that a run has to write down what it has come to
_ONCE_SECONDS = 1.0  # a terminal and a parent process may send the same signal each


class Interrupted(KeyboardInterrupt):
    """One of `SIGNALS` has come: a KeyboardInterrupt, which libraries let pass where they catch other exceptions."""


class _Interrupt:
    """The handler of a command; `number` is the first signal that came, 0 before."""

    def __init__(self) -> None:
        self.number, self._last, self._owner = 0, 0.0, os.getpid()
        self.say: Callable[[], object] = lambda: None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._owner:  # a forked child, which ends as it would without this
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        last, self._last = self._last, time.monotonic()
        if not self.number:
            self.number, timer = number, threading.Timer(LATE_SECONDS, self._give_up)
            timer.daemon = True
            timer.start()
        elif self._last - last <= _ONCE_SECONDS:
            return
        raise Interrupted(signal.Signals(number).name)

    def _give_up(self) -> None:
        """End a process whose exception was lost, or hangs: the interrupted statement may have locked a database."""
        try:
            self.say()
        finally:
            end_children()
            os._exit(128 + self.number)


_handlers: dict[int, Callable[[int, FrameType | None], None]] = {}  # those of this process, which `listen` puts back


def install() -> None:
    """Raise `Interrupted` at the signals that this process does not ignore.

    A shell ignores SIGINT for what it runs in the back, and `nohup` SIGHUP.
    """
    _handle(dict.fromkeys(SIGNALS, _Interrupt()))


def listen() -> None:
    """Put the handlers of this process in the place of ZenML's, until the step ends that calls this.

    Raises `Interrupted` if a signal has come whose exception was lost, as in a callback of a library.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number, handler in _handlers.items():
        signal.signal(number, handler)
    if signalled():
        raise Interrupted


def signalled() -> int:
    """Return the number of the signal that ends this process; 0 if none came."""
    return next((handler.number for handler in _handlers.values() if isinstance(handler, _Interrupt)), 0)


def when_late(say: Callable[[], object]) -> None:
    """Call `say` before the process is ended that has not ended `LATE_SECONDS` after a signal."""
    for handler in _handlers.values():
        if isinstance(handler, _Interrupt):
            handler.say = say


def ignore() -> None:
    """Ignore the signals from here on."""
    for number in SIGNALS:
        with suppress(ValueError):  # another thread than the main one gives up
            signal.signal(number, signal.SIG_IGN)


def end_children() -> None:
    """End child processes, such as programs in sandboxes or MLflow's server: SIGTERM first, then SIGKILL.

    Ray takes longer than that to end by itself, so what it leaves is removed here: its token and its logs.
    """
    children = left = psutil.Process().children(recursive=True)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for child in left:
            with suppress(psutil.NoSuchProcess):
                child.send_signal(number)
        left = psutil.wait_procs(left, timeout=_CHILDREN_SECONDS)[1]
    if children:
        from rlft.training.distributed.cluster import remove_folders  # 0.2 s, after what must be done at once

        with suppress(OSError):  # no place for temporary files
            remove_folders()


def arm_pod() -> None:
    """Let a signal end a process at once that no command has started, such as a pod's; `disarm_pod` takes this away.

    ZenML would mark the run as failed, and the next pod of a job goes on with one that is unfinished alone. Ctrl-C is
    left as it is: such a process may also be a program of the user's.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and not _handlers and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        _handle(dict.fromkeys(POD_SIGNALS, _end))


def disarm_pod() -> None:
    """Take away what `arm_pod` has installed; the handler of a command stays."""
    for number in [number for number, handler in _handlers.items() if handler is _end]:
        signal.signal(number, signal.SIG_DFL)
        del _handlers[number]


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, f"\n{signal.Signals(number).name}: the next pod of this job goes on from here\n".encode())
    os._exit(128 + number)


def _handle(handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]]) -> None:
    for number, handler in handlers.items():
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
            _handlers[number] = handler
