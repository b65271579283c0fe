"""The process that uses Ray for a run, the `director`, as the run's own process sees it.

Ray ends a process that has lost the head of its cluster. That must not be the process of the run, which has to say what
has happened and what to do.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from rlft.distributed import director
from rlft.distributed.demand import Demand
from rlft.distributed.local_cluster import remove_folders
from rlft.distributed.messages import Done, Failed, Heard, Request, Said
from rlft.distributed.words import RESUME
from rlft.engines.child import end_session
from rlft.errors import DistributedError

_END_SECONDS = 30.0
_START_SECONDS = 300.0
"""Seconds on top of a request's own limit in which a new director must be heard of: Ray may take long to start."""
_SLACK = 30.0
"""Seconds on top of it once it has been heard of: the director says itself, and better, what does not answer it."""


class DirectorProcess:
    """Starts the process with its first request, and again after one that has failed, which ends it."""

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        self._process: _Process | None = None
        self._lock = threading.Lock()  # a request at a time

    def ask(self, request: Request, seconds: float, heard: Callable[[Heard], None]) -> Any:
        """Return what the director answers to a request; `heard` is called with what it says before that.

        It must take the request, and be heard of, every `seconds` and some more. Raises DistributedError if it is not,
        or ends, and what it raises itself; then all that it has started is ended.
        """
        with self._lock:
            try:
                if self._process is None:
                    self._process = _Process(director.direct, self.demand)
                self._process.send(request, seconds + self._process.slack)
                while True:
                    match self._process.hear(seconds + self._process.slack):
                        case Done(value):
                            return value
                        case Failed() as failed:
                            raise failed.error()
                        case said:
                            heard(said)
            except BaseException:
                self._end()
                raise

    def close(self) -> None:
        """End it, and all that it has started."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        found, self._process = self._process, None
        if found is not None:
            found.close()


def ask_once(work: Callable[..., None], demand: Demand, *arguments: Any) -> Any:
    """Return what a function says in a process of its own that may use Ray. Raises DistributedError if it ends."""
    asked = _Process(work, demand, *arguments)
    try:
        said = asked.hear(_START_SECONDS)
        assert isinstance(said, Done)
        return said.value
    finally:
        asked.close()


class _Process:
    """A process that uses Ray, and the link to it."""

    def __init__(self, work: Callable[..., None], demand: Demand, *arguments: Any) -> None:
        self._joins = demand.settings.address is not None
        context = multiprocessing.get_context("spawn")
        self._link, theirs = context.Pipe()
        self._process = context.Process(
            target=work, args=(theirs, demand, *arguments), name="rlft-director", daemon=True
        )
        self._process.start()
        theirs.close()
        self._sender: threading.Thread | None = None
        self.slack = _START_SECONDS

    def send(self, request: Request, seconds: float) -> None:
        """Send a request. Raises DistributedError if the process has ended, or has not taken it after so many seconds.

        A round's rollouts are more than the link holds, so that sending them waits for the process.
        """
        failures: list[Exception] = []

        def work() -> None:
            try:
                self._link.send(request)
            except Exception as cause:
                failures.append(cause)

        self._sender = threading.Thread(target=work, name="rlft-request", daemon=True)
        self._sender.start()
        self._sender.join(seconds)
        if self._sender.is_alive():
            raise _silent(seconds)
        for cause in failures:
            if isinstance(cause, ConnectionError):
                raise self._ended() from cause
            raise cause

    def hear(self, seconds: float) -> Said:
        """Return what it says next. Raises DistributedError if it ends, or says nothing for so many seconds."""
        limit = time.monotonic() + seconds
        while not self._link.poll(min(1.0, seconds)):
            if time.monotonic() > limit:
                raise _silent(seconds)
        try:
            said = self._link.recv()
        except (EOFError, ConnectionError) as cause:
            raise self._ended() from cause
        self.slack = _SLACK
        return said

    def _ended(self) -> DistributedError:
        self._process.join(_END_SECONDS)
        return _dead(self._process.exitcode, joined=self._joins)

    def close(self) -> None:
        """End it, and all that it has started."""
        if self._sender is not None and self._sender.is_alive():
            self._process.kill()  # before the link is closed, whose number another file could get while it is written
            self._sender.join()
        self._link.close()  # which tells it
        self._process.join(_END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        # Where it could not end Ray itself: its agents outlive a raylet that is killed.
        if self._process.pid is not None:
            end_session(self._process.pid)
        remove_folders()


def _dead(code: int | None, *, joined: bool) -> DistributedError:
    """Return what to say of the process that has ended: Ray ends it with a code of its own if it has lost its head.

    `joined` says whether that is the head of a cluster that ran already, maybe on another machine.
    """
    here = "look whether this machine is short of memory"
    if code == -signal.SIGKILL:
        what, look = "the process that uses Ray was killed, as a system does that is short of memory", here
    elif joined:
        what = f"the head of Ray does not answer any more, or the process that uses it has died (exit code {code})"
        look = "look whether the machine of the head is up and has memory"
    else:
        what, look = f"Ray's head on this machine, or the process that uses it, has died (exit code {code})", here
    return DistributedError(what, where="distributed", fix=f"{look}; {RESUME}")


def _silent(seconds: float) -> DistributedError:
    what = f"the process that uses Ray has not answered for {seconds:g} s"
    return DistributedError(what, where="distributed", fix=RESUME)
