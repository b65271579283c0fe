"""The trainers of a run as its own process sees them, and the process that uses Ray for it, the `director`.

Ray ends a process that has lost the head of its cluster. That must not be the process of the run, which has to say what
has happened and what to do.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlft.config import DistributedConfig
from rlft.engines.server_process import end_session
from rlft.errors import DistributedError, RlftError
from rlft.progress import Progress, silent
from rlft.training.distributed import director
from rlft.training.distributed.cluster import RESUME, remove_folders
from rlft.training.distributed.director import Advance, Done, Failed
from rlft.training.job import Job
from rlft.types import TrainReport

_END_SECONDS = 30.0


class Trainers:
    """The processes that train together; they are started by the first round, and again after one that has failed.

    `folder` is where their machines see files of this one.
    """

    def __init__(self, settings: DistributedConfig, on_gpu: bool, folder: Path) -> None:
        self.settings, self.on_gpu, self.folder = settings, on_gpu, folder
        self._process: _Process | None = None

    def train(self, job: Job, progress: Progress = silent) -> TrainReport:
        """Train a round; the policy that it makes is in `job.target` unless the report says that it was stopped.

        Raises DistributedError if a trainer, a machine or the head of the cluster dies, or if they hang; and what a
        trainer raises. Then all trainers are ended.
        """
        try:
            if self._process is None:
                self._process = _Process(director.direct, self.settings, self.on_gpu, self.folder)
            return self._process.ask(job, progress)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the trainers, and all that was started for them."""
        found, self._process = self._process, None
        if found is not None:
            found.close()


def find_problem(settings: DistributedConfig, on_gpu: bool, folder: Path) -> RlftError | None:
    """Return what keeps the cluster that a run is to join from its work; `folder` is where policies are stored."""
    asked = _Process(director.look, settings, on_gpu, folder)
    try:
        return asked.ask(None, silent)
    except DistributedError as error:
        return error
    finally:
        asked.close()


class _Process:
    """A process that uses Ray, and the link to it."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._link, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, *arguments), name="rlft-director", daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, job: Job | None, progress: Progress) -> Any:
        """Send a job, if there is one, and return the answer. Raises DistributedError if the process ends."""
        try:
            if job is not None:
                self._link.send(job)
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


def shared_folder(address: str | None, scratch: Path) -> Path:
    """Return where trainers see files: beside the policies in a cluster, else where temporary files go."""
    return Path(tempfile.gettempdir()) if address is None else Path(os.path.realpath(scratch)).parent
