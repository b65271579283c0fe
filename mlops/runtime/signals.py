"""What Ctrl-C, SIGTERM and a closed terminal do: they replace the process by `mlops.runtime.interrupted`, which says
what became of the run.

An exception would be raised inside whatever statement is being run: in a transaction of sqlite, in a callback that
swallows it, in ZenML's handling of another error. A run that is killed anywhere can be resumed, so an interrupt is a
kill: `exec` ends all threads at once, and keeps the process id and the environment for `mlops.runtime.interrupted`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType

from mlops.home.last_calls import sentence_of
from mlops.runtime.hangs import SIGNALS
from rlft.workers.witness import exit_call, note_exit

POD_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
POD_SECONDS = 10.0  # Kubernetes kills a pod half a minute after SIGTERM, others sooner
_ROOT = Path(__file__).resolve().parents[2]
_exit = os._exit


@dataclass(frozen=True, slots=True)
class Facts:
    """What the program that the process becomes is told of it.

    `signal` is the number of what ended it, and `death` a sentence of how code has ended it instead. The others are
    those of `Interrupt`.
    """

    summary: str | None = None
    started: float = 0.0
    run_name: str | None = None
    tracking_uri: str | None = None
    limit: float | None = None
    signal: int = signal.SIGINT
    death: str | None = None

    @property
    def exit_code(self) -> int:
        """What the process ends with: 130, 143 or 129 by signal, and 1 where code has ended it from inside."""
        return 1 if self.death else 128 + self.signal


@dataclass
class Interrupt:
    """The handler of all three signals. It passes what it knows on to `mlops.runtime.interrupted`.

    `summary` is the file that `--summary` names, `started` the command's beginning in seconds since the epoch, and
    `run_name` the name of its run, set once there may be a run. `tracking_uri` is where MLflow is, if the environment
    does not say so, and `limit` the seconds after which the process ends, whatever is still to be done. `resume` is the
    command that goes on with its run if an error ends that.
    """

    summary: Path | None = None
    started: float = field(default_factory=time.time)
    run_name: str | None = None
    tracking_uri: str | None = None
    limit: float | None = None
    resume: str | None = None
    owner: int = field(default_factory=os.getpid)

    def install(self, signals: tuple[signal.Signals, ...] = SIGNALS) -> None:
        """Handle the signals that this process does not ignore; a shell ignores SIGINT for what it runs in the back,
        and `nohup` SIGHUP. A call of `os._exit` is handled like one, since nothing else would tell of it.
        """
        for number in signals:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self)

        def told_exit(status: int) -> None:
            if os.getpid() == self.owner:  # a forked child, such as one of multiprocessing, ends so
                called = exit_call(status, sys._getframe(1))
                noted = note_exit(called)
                self._replace(Facts(death=sentence_of([noted]) if noted else f"{called} has ended the process"))
            _exit(status)

        os._exit = told_exit  # type: ignore[assignment]

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Replace this process by `mlops.runtime.interrupted`, which starts with the signals ignored.

        A forked child, which has inherited this handler, ends as it would without it.
        """
        if os.getpid() != self.owner:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._replace(Facts(signal=number))

    def _replace(self, what: Facts) -> None:
        ignore()
        # exec discards what is still in Python's buffer. The interrupted statement may be writing to it (RuntimeError).
        with suppress(RuntimeError, ValueError, OSError):
            if sys.stdout is not None:  # it is None in a process that was started without one
                sys.stdout.flush()
        own = {
            "summary": self.summary and str(self.summary),
            "started": self.started,
            "run_name": self.run_name,
            "tracking_uri": self.tracking_uri,
            "limit": self.limit and time.time() + self.limit,
        }
        # With -P nothing is imported from the working directory, where the user may have a folder `pipelines`; in a pod
        # rlft is not installed, and lies there.
        path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
        arguments = [sys.executable, "-P", "-m", "mlops.runtime.interrupted", json.dumps(asdict(what) | own)]
        os.execve(sys.executable, arguments, os.environ | {"PYTHONPATH": path})


def ignore() -> None:
    """Ignore the signals from here on, and let `os._exit` end the process as ever."""
    for number in SIGNALS:
        with suppress(ValueError):  # `os._exit` may be called in another thread than the main one
            signal.signal(number, signal.SIG_IGN)
    os._exit = _exit


def installed() -> Interrupt | None:
    """Return the handler of this process, if `install` was called."""
    handlers = [signal.getsignal(number) for number in SIGNALS]
    return next((handler for handler in handlers if isinstance(handler, Interrupt)), None)


def arm_pod() -> None:
    """Install a handler in a process that no command has started, such as a pod's; `disarm_pod` takes it away again.

    Ctrl-C is left as it is: such a process may also be a program of the user's.
    """
    if threading.current_thread() is not threading.main_thread() or installed() is not None:
        return
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        Interrupt(limit=POD_SECONDS).install(POD_SIGNALS)
        keep_from_zenml()


def disarm_pod() -> None:
    """Take away what `arm_pod` has installed; the handler of a command stays."""
    handler = installed()
    if handler is None or handler.limit is None:
        return
    for number in POD_SIGNALS:
        if signal.getsignal(number) is handler:
            signal.signal(number, signal.SIG_DFL)
    os._exit = _exit


def keep_from_zenml() -> None:
    """Keep ZenML from replacing an installed handler by its own while a step runs.

    ZenML's handler asks its database in the middle of whatever statement was interrupted, which may be one of that
    database's own transactions.
    """
    if installed() is not None:
        from zenml.orchestrators import signal_handler

        signal_handler._SIGNALS = ()  # the signals that it handles; ZenML has no setting for it
