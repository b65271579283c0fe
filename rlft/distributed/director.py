"""What runs in the process that uses Ray: it has the trainers train what it is given, and says how they get on."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rlft.config import DistributedConfig
from rlft.distributed.crew import Crew
from rlft.distributed.joined import JoinedCluster
from rlft.errors import DistributedError

_END_SECONDS = 20.0


def direct(link: Connection, settings: DistributedConfig, device: str, on_gpu: bool) -> None:
    """Train the jobs that the link brings until it is closed, and answer each with `report` or `error`.

    In between come `pids`, `progress` and `alive`, of which the last says only that this process is.
    """
    _stand_alone()
    say = _Speaker(link)
    crew = Crew(settings, device, on_gpu=on_gpu, pids=lambda found: say("pids", found), tick=lambda: say("alive", None))

    def progress(
        done: float, total: float | None, what: str, *, tokens: int | None = None, loss: float | None = None
    ) -> None:
        del loss  # a round has none
        say("progress", (done, total, what, tokens))

    failed = True
    try:
        while True:
            try:
                job = link.recv()
            except EOFError:
                failed = False
                return
            try:
                report = crew.train(job, progress)
            except _Unheard:
                raise
            except Exception as error:
                _say_error(say, error)
                return
            say("report", report)
    except _Unheard:
        return
    finally:
        _end_within(_END_SECONDS)
        crew.close(by_force=failed)


def look(link: Connection, settings: DistributedConfig, folder: Path, on_gpu: bool) -> None:
    """Answer with what keeps the cluster from training, or `None`, as `problem`."""
    _stand_alone()
    assert settings.address is not None
    found: DistributedError | None = None
    try:
        JoinedCluster(settings.address, settings.trainers, folder, on_gpu=on_gpu).close()
    except DistributedError as error:
        found = error
    link.send(("problem", found))


class _Unheard(Exception):
    """Raised where the process of the run is gone."""


class _Speaker:
    def __init__(self, link: Connection) -> None:
        self._link = link

    def __call__(self, kind: str, value: Any) -> None:
        try:
            self._link.send((kind, value))
        except OSError as cause:
            raise _Unheard from cause


def _stand_alone() -> None:
    """Leave Ctrl-C to the process of the run, which then closes the link."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _say_error(say: _Speaker, error: Exception) -> None:
    """Send an error, or its text if it cannot be sent."""
    error.__cause__ = None  # it stays here: only the error itself is sent
    try:
        say("error", error)
    except _Unheard:
        raise
    except Exception:  # whatever its own class raises
        say("error", RuntimeError(f"{type(error).__name__}: {error}"))


def _end_within(seconds: float) -> None:
    """End this process by then, whatever Ray still waits for: without its head that may be long."""
    timer = threading.Timer(seconds, lambda: os._exit(1))
    timer.daemon = True
    timer.start()
