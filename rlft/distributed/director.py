"""What runs in the process that uses Ray: it has trainers train and engines start, and says how they get on."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rlft.distributed.cluster import Cluster
from rlft.distributed.crew import Crew, kill_trainers
from rlft.distributed.demand import Demand
from rlft.distributed.engine_crew import EngineCrew
from rlft.distributed.job import Job
from rlft.distributed.joined import JoinedCluster
from rlft.errors import DistributedError
from rlft.types import TrainReport

_END_SECONDS = 20.0


def direct(link: Connection, demand: Demand) -> None:
    """Do what the link asks for until it is closed, and answer each request with `done` or `error`.

    After an error it ends. In between come `pids`, `progress` and `alive`, of which the last says only that this
    process is.
    """
    _stand_alone()
    say = _Speaker(link)
    work = _Work(demand, say)
    failed = True
    try:
        while True:
            try:
                kind, value = link.recv()
            except EOFError:
                failed = False
                return
            try:
                done = work.do(kind, value)
            except _Unheard:
                raise
            except Exception as error:
                _say_error(say, error)
                return
            say("done", done)
    except _Unheard:
        return
    finally:
        _end_within(_END_SECONDS)
        work.close(by_force=failed)


def look(link: Connection, demand: Demand, folder: Path) -> None:
    """Answer with what keeps the cluster from doing its work, or `None`, as `problem`."""
    _stand_alone()
    found: DistributedError | None = None
    try:
        JoinedCluster(demand, folder).close()
    except DistributedError as error:
        found = error
    link.send(("problem", found))


class _Work:
    """The cluster, which is opened by the first request, and what was started there."""

    def __init__(self, demand: Demand, say: _Speaker) -> None:
        self._demand, self._say = demand, say
        self._cluster: Cluster | JoinedCluster | None = None
        self._crew: Crew | None = None
        self._engines: EngineCrew | None = None

    def do(self, kind: str, value: Any) -> Any:
        """Return the answer to a request."""
        if kind == "train":
            return self._train(value)
        order, within, folder = value
        self._engines = EngineCrew(self._open(folder), self._demand, self._tick)
        return self._engines.start(order, within)

    def close(self, *, by_force: bool) -> None:
        """End everything, by force where a trainer may be stopped, or wait for another: Ray would wait as well."""
        if self._engines is not None:
            self._engines.close()
        pids = [] if self._crew is None else self._crew.close(by_force=by_force)
        if self._cluster is not None:
            self._cluster.close()
        kill_trainers(pids)

    def _train(self, job: Job) -> TrainReport:
        if self._crew is None:
            cluster = self._open(job.target.parent)
            self._crew = Crew(cluster, self._demand, pids=lambda found: self._say("pids", found), tick=self._tick)
        return self._crew.train(job, self._progress)

    def _open(self, folder: Path) -> Cluster | JoinedCluster:
        if self._cluster is None:
            joins = self._demand.settings.address is not None
            self._cluster = JoinedCluster(self._demand, folder) if joins else Cluster(self._demand)
        return self._cluster

    def _tick(self) -> None:
        self._say("alive", None)

    def _progress(
        self, done: float, total: float | None, what: str, *, tokens: int | None = None, loss: float | None = None
    ) -> None:
        del loss  # a round has none
        self._say("progress", (done, total, what, tokens))


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
