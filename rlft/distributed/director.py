"""What runs in the process that uses Ray: it has trainers train and engines start, and says how they get on.

Its messages are here too: what the process of the run asks, and what the director answers.
"""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import FrameType
from typing import Any

from rlft.distributed.demand import Demand
from rlft.distributed.engine_actors import EngineActors
from rlft.distributed.existing_cluster import ADDRESS, ExistingCluster
from rlft.distributed.local_cluster import LocalCluster, said_by
from rlft.distributed.trainer_actors import TrainerActors, kill_trainers
from rlft.engines.ordered import Order
from rlft.errors import DistributedError
from rlft.training.job import Job
from rlft.types import TrainReport

_PICKLER: Any = ForkingPickler  # by which the link sends, too; type checkers take its `loads` for a method


@dataclass(frozen=True, slots=True)
class Train:
    """A request to train a round; its answer is a `TrainReport`. All machines see the same files in `folder`."""

    job: Job
    folder: Path


@dataclass(frozen=True, slots=True)
class StartEngines:
    """A request to start servers, each `within` so many seconds; its answer is a list of `Served`."""

    order: Order
    within: float
    folder: Path


Request = Train | StartEngines


@dataclass(frozen=True, slots=True)
class Pids:
    """The numbers of the trainers' processes; that of one on another machine is 0."""

    numbers: list[int]


@dataclass(frozen=True, slots=True)
class Advance:
    """How far the trainers are, as `rlft.progress.Progress` takes it."""

    done: float
    total: float | None
    what: str
    tokens: int | None


@dataclass(frozen=True, slots=True)
class Alive:
    """Says only that the director is."""


@dataclass(frozen=True, slots=True)
class Done:
    """The answer to a request."""

    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """The end of a request by an error: as bytes, which the other process may not be able to read, and in words."""

    pickled: bytes
    text: str
    notes: tuple[str, ...] = ()

    @classmethod
    def by(cls, error: Exception) -> Failed:
        """Return the message about an error."""
        text, notes = f"{type(error).__name__}: {error}", tuple(getattr(error, "__notes__", ()))
        try:
            return cls(bytes(_PICKLER.dumps(error)), text, notes)
        except Exception:  # whatever its own class raises
            return cls(b"", text, notes)

    def error(self) -> Exception:
        """Return the error itself, or a RuntimeError with its text where it cannot be made here."""
        try:
            made = _PICKLER.loads(self.pickled)  # from a process of this run, as all that comes over the link
        except Exception:  # its class is not here, or takes other arguments
            made = None
        if isinstance(made, Exception):
            return made
        made = RuntimeError(self.text)
        for note in self.notes:
            made.add_note(note)
        return made


Heard = Pids | Advance | Alive
"""What comes before the answer."""
Said = Heard | Done | Failed

_END_SECONDS = 20.0


def direct(link: Connection, demand: Demand) -> None:
    """Do what the link asks for until it is closed, and answer each request as `messages` says; after an error, end."""
    _stand_alone()
    say = _Speaker(link)
    work = _Work(demand, say)
    failed = True
    try:
        while True:
            try:
                request: Request = link.recv()
            except (EOFError, ConnectionError):
                failed = False
                return
            try:
                done = work.do(request)
            except Exception as error:
                say(Failed.by(error))
                return
            say(Done(done))
    except _Unheard:
        return
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end_within(_END_SECONDS)
        work.close(by_force=failed)


def look(link: Connection, demand: Demand, folder: Path) -> None:
    """Answer with what keeps the cluster from doing its work, a DistributedError, or with `None`."""
    _stand_alone()
    found: DistributedError | None = None
    try:
        ExistingCluster(demand, folder).close()
    except DistributedError as error:
        found = error
    except Exception as error:  # of Ray's own state, of which little is promised
        what = f"the cluster cannot be looked at: {type(error).__name__}: {said_by(error)}"
        found = DistributedError(what, where=ADDRESS, fix="look whether it is well (`ray status`), and try again")
    link.send(Done(found))


class _Work:
    """The cluster, which is opened by the first request, and what was started there."""

    def __init__(self, demand: Demand, say: _Speaker) -> None:
        self._demand, self._say = demand, say
        self._cluster: LocalCluster | ExistingCluster | None = None
        self._trainers: TrainerActors | None = None
        self._engines: EngineActors | None = None

    def do(self, request: Request) -> Any:
        """Return the answer to a request."""
        match request:
            case Train(job, folder):
                return self._train(job, folder)
            case StartEngines(order, within, folder):
                self._engines = EngineActors(self._open(folder), self._demand, self._tick)
                return self._engines.start(order, within)

    def close(self, *, by_force: bool) -> None:
        """End everything, by force where a trainer may be stopped, or wait for another: Ray would wait as well."""
        if self._engines is not None:
            self._engines.close()
        pids = [] if self._trainers is None else self._trainers.close(by_force=by_force)
        if self._cluster is not None:
            self._cluster.close()
        kill_trainers(pids)

    def _train(self, job: Job, folder: Path) -> TrainReport:
        if self._trainers is None:
            cluster = self._open(folder)
            self._trainers = TrainerActors(
                cluster, self._demand, pids=lambda found: self._say(Pids(found)), tick=self._tick
            )
        return self._trainers.train(job, self._progress)

    def _open(self, folder: Path) -> LocalCluster | ExistingCluster:
        if self._cluster is None:
            joins = self._demand.settings.address is not None
            self._cluster = ExistingCluster(self._demand, folder) if joins else LocalCluster(self._demand)
            _end_by_sigterm()
        return self._cluster

    def _tick(self) -> None:
        self._say(Alive())

    def _progress(
        self, done: float, total: float | None, what: str, *, tokens: int | None = None, loss: float | None = None
    ) -> None:
        del loss  # a round has none
        self._say(Advance(done, total, what, tokens))


class _Unheard(BaseException):
    """Raised where the process of the run is gone, or on its way out.

    SIGTERM raises it anywhere, also where any Exception is taken for what a trainer has raised.
    """


class _Speaker:
    def __init__(self, link: Connection) -> None:
        self._link = link

    def __call__(self, said: Said) -> None:
        try:
            self._link.send(said)
        except OSError as cause:
            raise _Unheard from cause


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


def _end_by_sigterm() -> None:
    """End at SIGTERM, by which a run that is interrupted asks for it, as if the link was closed.

    Ray's own handler, which is there once Ray has started, writes a trace of the stack to the terminal.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        del frame
        signal.signal(number, signal.SIG_IGN)  # a second one would cut short what ends the others
        raise _Unheard

    signal.signal(signal.SIGTERM, leave)


def _end_within(seconds: float) -> None:
    """End this process by then, whatever Ray still waits for: without its head that may be long."""
    timer = threading.Timer(seconds, lambda: os._exit(1))
    timer.daemon = True
    timer.start()
