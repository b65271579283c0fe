"""The trainers of a run, as its process sees them."""

from __future__ import annotations

from pathlib import Path

from rlft.distributed import director
from rlft.distributed.demand import Demand
from rlft.distributed.director_process import DirectorProcess, ask_once
from rlft.distributed.messages import Advance, Alive, Heard, Pids, Train
from rlft.errors import DistributedError
from rlft.progress import Progress, silent
from rlft.training.job import Job
from rlft.types import TrainReport


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
