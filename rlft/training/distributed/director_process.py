"""The trainers and engines of a run as its own process sees them, and the process that uses Ray for it, the `director`.

Ray ends a process that has lost the head of its cluster. That must not be the process of the run, which has to say what
has happened and what to do.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rlft.config import EngineSettings
from rlft.engines.server_process import Served, end_session
from rlft.engines.serving import order_for
from rlft.errors import DistributedError, RlftError
from rlft.files import folder_prefix, remove_left_behind
from rlft.models import Policy
from rlft.progress import Progress, silent
from rlft.texts.secrets import remember
from rlft.training.distributed import director
from rlft.training.distributed.cluster import RESUME, remove_folders
from rlft.training.distributed.demand import Demand
from rlft.training.distributed.director import Advance, Done, Failed, Request, StartEngines, Train
from rlft.training.job import Job
from rlft.types import TrainReport

_END_SECONDS = 30.0
_KIND = "start"  # of temporary folders


class DirectorProcess:
    """Starts the process with its first request, and again after one that has failed, which ends it."""

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        self._process: _Process | None = None
        self._lock = threading.Lock()  # a request at a time

    def ask(self, request: Request, progress: Progress = silent) -> Any:
        """Return what the director answers to a request.

        Raises DistributedError if it ends, and what it raises itself; then all that it has started is ended.
        """
        with self._lock:
            try:
                if self._process is None:
                    self._process = _Process(director.direct, self.demand)
                return self._process.ask(request, progress)
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


def find_problem(demand: Demand, folder: Path) -> RlftError | None:
    """Return what keeps the cluster that a run is to join from its work; `folder` is where policies are stored."""
    asked = _Process(director.look, demand, folder)
    try:
        return asked.ask(None, silent)
    except DistributedError as error:
        return error
    finally:
        asked.close()


class _Process:
    """A process that uses Ray, and the link to it."""

    def __init__(self, work: Callable[..., None], demand: Demand, *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._link, theirs = context.Pipe()
        given = (theirs, demand, *arguments)
        self._process = context.Process(target=work, args=given, name="rlft-director", daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, request: Request | None, progress: Progress) -> Any:
        """Send a request, if there is one, and return the answer. Raises DistributedError if the process ends."""
        try:
            if request is not None:
                self._link.send(request)
            while True:
                match self._link.recv():
                    case Advance(done, total, what, tokens):
                        progress(done, total, what, tokens=tokens)
                    case Failed(error):
                        raise error
                    case Done(value):
                        return value
        except (EOFError, ConnectionError) as cause:
            self._process.join(_END_SECONDS)
            raise DistributedError(
                f"the head of Ray, or the process that uses it, has died (exit code {self._process.exitcode})",
                where="distributed",
                fix=f"look whether this machine, or that of the cluster's head, is up and has memory; {RESUME}",
            ) from cause

    def close(self) -> None:
        """End it, and all that it has started."""
        self._link.close()  # which tells it
        self._process.join(_END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        # Where it could not end Ray itself: its agents outlive a raylet that is killed.
        if self._process.pid is not None:
            end_session(self._process.pid)
        remove_folders()


class Trainers:
    """The processes that train together; they are started by the first round, and again after one that has failed.

    `folder` is where their machines see files of this one.
    """

    def __init__(self, director: DirectorProcess, folder: Path) -> None:
        self._director, self.folder = director, folder

    def train(self, job: Job, progress: Progress = silent) -> TrainReport:
        """Train a round; the policy that it makes is in `job.target` unless the report says that it was stopped.

        Raises DistributedError if a trainer, a machine or the head of the cluster dies, or if they hang; and what a
        trainer raises. Then all trainers are ended.
        """
        return self._director.ask(Train(job, self.folder), progress)

    def close(self) -> None:
        """End the trainers, and all else that their director has started."""
        self._director.close()


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
        with tempfile.TemporaryDirectory(prefix=folder_prefix(_KIND), dir=self.folder) as folder:
            order = order_for(policy, self._settings, self._batch_size, Path(folder))
            within = self._settings.server.start_seconds
            found: list[Served] = self._director.ask(StartEngines(order, within, self.folder))
        for each in found:
            remember(each.key)
        return found


def shared_folder(address: str | None, scratch: Path) -> Path:
    """Return where trainers and engines see files: beside the policies in a cluster, else where temporary files go."""
    return Path(tempfile.gettempdir()) if address is None else Path(os.path.realpath(scratch)).parent
