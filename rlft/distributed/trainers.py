"""The trainers of a run, as its process sees them: it asks the `director`, a process of its own, which uses Ray.

Ray ends a process that has lost the head of its cluster. That must not be the process of the run, which has to say what
has happened and what to do.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import time
from pathlib import Path
from typing import Any

from rlft.config import DistributedConfig
from rlft.distributed import director
from rlft.distributed.crew import RESUME
from rlft.distributed.job import Job
from rlft.errors import DistributedError
from rlft.progress import Progress, silent
from rlft.types import TrainReport

_END_SECONDS = 30.0
_SLACK = 300.0
"""Seconds on top of twice the limit in which the director itself must be heard of: Ray may take long to start."""


class Trainers:
    """The processes that train together; they are started by the first round, and again after one that has failed.

    `device` is `policy.device`, and `on_gpu` says whether it is a GPU.
    """

    def __init__(self, settings: DistributedConfig, device: str, *, on_gpu: bool) -> None:
        self._settings, self._device, self._on_gpu = settings, device, on_gpu
        self._director: _Director | None = None
        self.pids: list[int] = []
        """The numbers of their processes; 0 for one on another machine."""

    def train(self, job: Job, progress: Progress = silent) -> TrainReport:
        """Train a round; the policy that it makes is in `job.target` unless the report says that it was stopped.

        Raises DistributedError if a trainer, a machine or the head of the cluster dies, or if they hang; and what a
        trainer raises. Then all trainers are ended.
        """
        try:
            if self._director is None:
                self._director = _Director(director.direct, self._settings, self._device, self._on_gpu)
            self._director.link.send(job)
            while True:
                kind, value = self._director.hear(2 * self._settings.timeout_seconds + _SLACK)
                if kind == "report":
                    return value
                if kind == "error":
                    raise value
                if kind == "pids":
                    self.pids = value
                if kind == "progress":
                    done, total, what, tokens = value
                    progress(done, total, what, tokens=tokens)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the trainers."""
        found, self._director, self.pids = self._director, None, []
        if found is not None:
            found.close()


def find_problem(settings: DistributedConfig, folder: Path, *, on_gpu: bool) -> DistributedError | None:
    """Return what keeps the cluster at `settings.address` from training; `folder` is where policies are stored."""
    looking = _Director(director.look, settings, folder, on_gpu)
    try:
        return looking.hear(_SLACK)[1]
    except DistributedError as error:
        return error
    finally:
        looking.close()


class _Director:
    """A process that uses Ray, and the link to it."""

    def __init__(self, work: Any, *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.link, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, *arguments), name="rlft-director", daemon=True)
        self._process.start()
        theirs.close()

    def hear(self, seconds: float) -> tuple[str, Any]:
        """Return what it says next. Raises DistributedError if it ends, or says nothing for so many seconds."""
        limit = time.monotonic() + seconds
        while not self.link.poll(min(1.0, seconds)):
            if time.monotonic() > limit:
                what = f"the process that directs the trainers has not answered for {seconds:g} s"
                raise DistributedError(what, where="distributed", fix=RESUME)
        try:
            return self.link.recv()
        except (EOFError, ConnectionError) as cause:
            self._process.join(_END_SECONDS)
            raise DistributedError(
                "the head of Ray does not answer any more, or the process that directs the trainers has died "
                f"(exit code {self._process.exitcode})",
                where="distributed",
                fix=f"look whether the machine of the head is up and has memory; {RESUME}",
            ) from cause

    def close(self) -> None:
        """End it, and all that it has started."""
        self.link.close()  # which tells it
        self._process.join(_END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
