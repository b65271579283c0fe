"""The trainers and engines of a run as its own process sees them, and the process that uses Ray for it, the `director`.

Ray ends a process that has lost the head of its cluster. That must not be the process of the run, which has to say what
has happened and what to do.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rlft.config import EngineSettings
from rlft.distributed import director
from rlft.distributed.demand import Demand
from rlft.distributed.director import Advance, Alive, Done, Failed, Heard, Pids, Request, Said, StartEngines, Train
from rlft.distributed.local_cluster import RESUME, remove_folders
from rlft.engines.child import end_session
from rlft.engines.ordered import Served
from rlft.engines.serving import order_for
from rlft.errors import DistributedError
from rlft.files import folder_prefix, remove_left_behind
from rlft.models import Policy
from rlft.progress import Progress, silent
from rlft.texts.secrets.hiding import remember
from rlft.training.job import Job
from rlft.types import TrainReport

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


class Trainers:
    """The processes that train together; they are started by the first round, and again after one that has failed.

    `folder` is where their machines see files of this one.
    """

    def __init__(self, director: DirectorProcess, folder: Path) -> None:
        self._director, self.folder = director, folder
        self.pids: list[int] = []
        """The numbers of their processes; 0 for one on another machine."""

    def train(self, job: Job, progress: Progress = silent) -> TrainReport:
        """Train a round; the policy that it makes is in `job.target` unless the report says that it was stopped.

        Raises DistributedError if a trainer, a machine or the head of the cluster dies, or if they hang; and what a
        trainer raises. Then all trainers are ended.
        """

        def heard(said: Heard) -> None:
            match said:
                case Pids(numbers):
                    self.pids = numbers
                case Advance(done, total, what, tokens):
                    progress(done, total, what, tokens=tokens)
                case Alive():
                    pass

        within = self._director.demand.settings.timeout_seconds
        try:
            return self._director.ask(Train(job, self.folder), within, heard)
        except BaseException:
            self.pids = []
            raise

    def close(self) -> None:
        """End the trainers, and all else that their director has started."""
        self._director.close()
        self.pids = []


def find_problem(demand: Demand, folder: Path) -> DistributedError | None:
    """Return what keeps the cluster that a run is to join from its work; `folder` is where policies are stored."""
    try:
        return ask_once(director.look, demand, folder)
    except DistributedError as error:
        return error


_KIND = "start"  # of temporary folders


class RayEngines:
    """Starts the engines that the settings ask for; `folder` is where their machines see files of this one."""

    def __init__(self, director: DirectorProcess, settings: EngineSettings, batch_size: int, folder: Path) -> None:
        self._director, self._settings, self._batch_size = director, settings, batch_size
        self.folder = folder

    def start(self, policy: Policy) -> Sequence[Served]:
        """Start servers for a policy, whose weights are still to be pushed, and return them once they answer.

        Raises EngineError if one does not start, DistributedError, and as `order_for` does.
        """
        remove_left_behind(_KIND, self.folder)
        within = self._settings.server.start_seconds
        with tempfile.TemporaryDirectory(prefix=folder_prefix(_KIND), dir=self.folder) as folder:
            order = order_for(policy, self._settings, self._batch_size, Path(folder))
            found: list[Served] = self._director.ask(StartEngines(order, within, self.folder), within, lambda _: None)
        for each in found:
            remember(each.key)
        return found


def shared_folder(address: str | None, scratch: Path) -> Path:
    """Return where trainers and engines see files: beside the policies in a cluster, else where temporary files go."""
    return Path(tempfile.gettempdir()) if address is None else Path(os.path.realpath(scratch)).parent
