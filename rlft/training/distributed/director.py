"""The trainers of a run as its own process sees them (`Trainers`), and the process that uses Ray for it, the director.

Ray ends a process that has lost the head of its cluster. That must not be the process of the run, which has to say what
has happened and what to do: it sends the director a `Job`, which has trainers train and says how they get on.
"""

from __future__ import annotations

import builtins
import multiprocessing
import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from rlft.config import DistributedConfig
from rlft.engines.server_process import end_session
from rlft.errors import DistributedError, RlftError
from rlft.progress import Progress, silent
from rlft.training.distributed.cluster import (
    ADDRESS,
    RESUME,
    Cluster,
    ExistingCluster,
    LocalCluster,
    remove_folders,
    said_by,
)
from rlft.training.distributed.trainer_actor import Pulse, TrainerActor
from rlft.training.job import Job
from rlft.types import TrainReport


@dataclass(frozen=True, slots=True)
class Advance:
    """How far the trainers are, as `rlft.progress.Progress` takes it; it comes before the answer."""

    done: float
    total: float | None
    what: str
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The answer to a request."""

    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """The end of a request by an error."""

    error: Exception

    @classmethod
    def by(cls, error: Exception) -> Failed:
        """Return the message about an error: itself, or of a class of others a RuntimeError with its text and notes.

        Such a class may hold what cannot be sent, or not be made again from it.
        """
        if isinstance(error, RlftError) or vars(builtins).get(type(error).__name__) is type(error):
            return cls(error)
        made = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            made.add_note(note)
        return cls(made)


_END_SECONDS = 20.0
_START_SECONDS = 300.0
"""Seconds that the processes may take to start, in which each imports torch and transformers."""
_GRACE = 3.0
"""Seconds in which the others fail, too, once a trainer has: the first to be heard of may only have lost a peer."""
_COLOURS = re.compile("\x1b\\[[0-9;]*m")


def direct(link: Connection, settings: DistributedConfig, on_gpu: bool, folder: Path) -> None:
    """Train what the link asks for until it is closed, and answer each job by `Done`; after an error, end.

    All machines see the same files in `folder`.
    """
    _stand_alone()
    cluster: Cluster | None = None
    trainers: TrainerActors | None = None
    try:
        while True:
            try:
                job: Job = link.recv()
            except (EOFError, ConnectionError):
                return
            if trainers is None:
                cluster = (
                    ExistingCluster(settings, on_gpu, folder) if settings.address else LocalCluster(settings, on_gpu)
                )
                # SIGTERM, by which a run that is interrupted asks for the end. Ray's handler would write a trace.
                signal.signal(signal.SIGTERM, _leave)
                trainers = TrainerActors(cluster, settings, on_gpu, link.send)
            link.send(Done(trainers.train(job)))
    except Exception as error:
        with suppress(OSError):  # the run is gone
            link.send(Failed.by(error))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # However long Ray waits for, without its head or for a trainer that is stopped.
        timer = threading.Timer(_END_SECONDS, lambda: os._exit(1))
        timer.daemon = True
        timer.start()
        if cluster is not None:
            cluster.close()


def look(link: Connection, settings: DistributedConfig, on_gpu: bool, folder: Path) -> None:
    """Answer with what keeps the cluster from doing its work, an error, or with `None`."""
    _stand_alone()
    found: RlftError | None = None
    try:
        ExistingCluster(settings, on_gpu, folder).close()
    except Exception as error:
        found = error if isinstance(error, RlftError) else DistributedError(said_by(error), where=ADDRESS)
    link.send(Done(found))


class TrainerActors:
    """The trainers, as the process sees them that directs them; they are started by the first round.

    `say` is told how far they are.
    """

    def __init__(
        self, cluster: Cluster, settings: DistributedConfig, on_gpu: bool, say: Callable[[Advance], None]
    ) -> None:
        self._cluster, self._settings, self._on_gpu, self._say = cluster, settings, on_gpu, say
        self._actors: list[Any] = []
        self._names: list[str] = []

    def train(self, job: Job) -> TrainReport:
        """Train a round; the policy that it makes is in `job.target` unless the report says that it was stopped.

        Raises DistributedError if a trainer dies or hangs, and what a trainer raises.
        """
        if not self._actors:
            self._start()
        given = self._cluster.ray.put(job)
        return self._call([each.train.remote(given) for each in self._actors])[0]

    def _start(self) -> None:
        settings, size = self._settings, self._settings.trainers
        self._names = [f"trainer {rank + 1} of {size}" for rank in range(size)]
        for rank in range(size):
            # As many threads as cores, unless OMP_NUM_THREADS says otherwise.
            place = self._cluster.options(rank, gpus=int(self._on_gpu))
            made = self._cluster.ray.remote(**place, concurrency_groups={"pulse": 1})(TrainerActor)
            self._actors.append(made.remote(rank, size, settings.sharding))
        calls = [each.place.remote() for each in self._actors]
        self._cluster.ray.wait(calls, num_returns=size, timeout=_START_SECONDS)
        places: list[tuple[int, str]] = self._call(calls)
        addresses = {address for _, address in places}
        for rank, (pid, address) in enumerate(places):
            self._names[rank] += f" (process {pid}{f' on {address}' if settings.address else ''})"
        device = "cuda" if self._on_gpu else "cpu"
        # Twice the limit, since it is the watch that says who hangs. On one machine all meet on loopback.
        given = self._cluster.meeting(), device, 2 * settings.timeout_seconds, len(addresses) == 1
        self._call([each.join.remote(*given) for each in self._actors])

    def _call(self, calls: list[Any]) -> list[Any]:
        """Return what a method returns in every trainer; raise as `train` does, after too long a standstill."""
        ray, limit = self._cluster.ray, self._settings.timeout_seconds
        waiting, beats, heard = calls, -1, time.monotonic()
        while waiting:
            done, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=1.0)
            if any(self._failure(call) for call in done):
                self._raise_first(calls)
            pulses = self._pulses() if waiting else []
            now = sum(pulse.beats for pulse in pulses if pulse)
            if now != beats:
                beats, heard = now, time.monotonic()
            if waiting and time.monotonic() - heard > limit:
                late = [name for name, pulse in zip(self._names, pulses, strict=True) if pulse is None]
                raise DistributedError(
                    f"{late[0]} has not answered for {limit:g} s" if late else f"no trainer has got on for {limit:g} s",
                    where="distributed",
                    fix=f"{RESUME}; if it only takes long, raise distributed.timeout_seconds",
                )
        return ray.get(calls)

    def _pulses(self) -> list[Pulse | None]:
        """Return how far each trainer is, `None` for those that do not say so in a second; tell the run."""
        asked = [each.pulse.options(concurrency_group="pulse").remote() for each in self._actors]
        done, _ = self._cluster.ray.wait(asked, num_returns=len(asked), timeout=1.0)
        answers = [call in done and self._failure(call) is None for call in asked]
        found: list[Pulse | None] = [
            self._cluster.ray.get(call) if answered else None for call, answered in zip(asked, answers, strict=True)
        ]
        first = next((pulse for pulse in found if pulse and pulse.total is not None), Pulse())
        alike = [pulse for pulse in found if pulse and pulse.what == first.what]
        tokens = sum(pulse.tokens or 0 for pulse in alike) or None
        if first.total is not None:
            self._say(Advance(sum(pulse.done for pulse in alike), first.total, first.what, tokens))
        return found

    def _failure(self, call: Any) -> Exception | None:
        """Return what a call that is done has raised, if anything."""
        try:
            self._cluster.ray.get(call)
        except Exception as cause:
            return cause
        return None

    def _raise_first(self, calls: list[Any]) -> NoReturn:
        """Raise what went wrong first: a death before an error, and an error of ours before one about a lost peer."""
        ray = self._cluster.ray
        done, _ = ray.wait(calls, num_returns=len(calls), timeout=_GRACE)
        found = {calls.index(call): failure for call in done if (failure := self._failure(call))}
        for rank, failure in found.items():
            if isinstance(failure, ray.exceptions.RayActorError):
                what = f"{self._names[rank]} has died, or its machine cannot be reached"
                raise DistributedError(what, where="distributed", fix=RESUME) from failure
        failures = sorted(found.values(), key=lambda failure: not isinstance(_cause_of(failure), RlftError))
        cause = _cause_of(failures[0])
        if cause is not failures[0] and not isinstance(cause, RlftError):
            cause.add_note(_COLOURS.sub("", str(failures[0])))  # which has the trainer's traceback
        raise cause


def _cause_of(failure: Exception) -> Exception:
    return getattr(failure, "cause", None) or failure


def _stand_alone() -> None:
    """Leave Ctrl-C to the process of the run, which then closes the link, and the terminal, too.

    Ray writes there what it has in its logs as well: traces of its own code, and paragraphs about each dead worker.
    What is to be said of it is said by the run.
    """
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(os.devnull, "w") as nowhere:
        for stream in (1, 2):
            os.dup2(nowhere.fileno(), stream)


def _leave(number: int, frame: Any) -> NoReturn:
    """End by an exception that nothing here catches. A second signal would cut short what ends the others."""
    del frame
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit


_LINK_SECONDS = 30.0


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
                self._process = _Process(direct, self.settings, self.on_gpu, self.folder)
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
    asked = _Process(look, settings, on_gpu, folder)
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
            self._process.join(_LINK_SECONDS)
            raise DistributedError(
                f"the head of Ray, or the process that uses it, has died (exit code {self._process.exitcode})",
                where="distributed",
                fix=f"look whether this machine, or that of the cluster's head, is up and has memory; {RESUME}",
            ) from cause

    def close(self) -> None:
        """End it, and all that it has started."""
        self._link.close()  # which tells it
        self._process.join(_LINK_SECONDS)
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
