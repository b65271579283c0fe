"""The trainers of a run: one process for each, in which a `Worker` trains, and the watch over them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil

from rlft.config import DistributedConfig
from rlft.distributed.cluster import Cluster
from rlft.distributed.job import Job, Pulse
from rlft.distributed.worker import Worker
from rlft.errors import DistributedError, RlftError
from rlft.progress import Progress, silent
from rlft.types import TrainReport

_RESUME = "`rlft resume` goes on with the run from its last finished round"
_START_SECONDS = 300.0
"""Seconds that the processes may take at least to start, in which each imports torch and transformers."""
_GRACE = 3.0
"""Seconds in which the others fail, too, once a trainer has: the first to be heard of may only have lost a peer."""


class Trainers:
    """The processes that train together; they are started by the first round, and again after one that has failed.

    `device` is `policy.device`, and `on_gpu` says whether it is a GPU.
    """

    def __init__(self, settings: DistributedConfig, device: str, *, on_gpu: bool) -> None:
        self._settings, self._device, self._on_gpu = settings, device, on_gpu
        self._cluster: Cluster | None = None
        self._actors: list[Any] = []
        self._pids: list[int] = []

    def train(self, job: Job, progress: Progress = silent) -> TrainReport:
        """Train a round; the policy that it makes is in `job.target` unless the report says that it was stopped.

        Raises DistributedError if a trainer dies or hangs, and what a trainer raises. Then all trainers are ended.
        """
        try:
            if not self._actors:
                self._start()
            assert self._cluster is not None
            given = self._cluster.ray.put(job)
            return self._call(lambda actor: actor.train.remote(given), progress, self._settings.timeout_seconds)[0]
        except BaseException:
            _kill(self._pids)  # one that is stopped, or waits for another, would keep Ray from ending
            self.close()
            raise

    def close(self) -> None:
        """End the trainers."""
        cluster, pids = self._cluster, self._pids
        self._cluster, self._actors, self._pids = None, [], []
        if cluster is not None:
            cluster.close()
        _kill(pids)

    def _start(self) -> None:
        size, seconds = self._settings.trainers, self._settings.timeout_seconds
        cores = max(1, (os.cpu_count() or 1) // size)  # as many threads a trainer has, unless OMP_NUM_THREADS says so
        self._cluster = Cluster(cores=size * cores, gpus=size if self._on_gpu else 0)
        made = self._cluster.ray.remote(
            num_cpus=cores, num_gpus=int(self._on_gpu), max_restarts=0, concurrency_groups={"pulse": 1}
        )(Worker)
        self._actors = [made.remote(rank, size) for rank in range(size)]
        self._pids = self._call(lambda actor: actor.pid.remote(), silent, max(seconds, _START_SECONDS))
        place = self._cluster.folder / "meeting"
        # Twice the limit, since it is the watch that says who hangs.
        self._call(lambda actor: actor.join.remote(place, self._device, 2 * seconds), silent, seconds)

    def _call(self, method: Callable[[Any], Any], progress: Progress, limit: float) -> list[Any]:
        """Return what a method returns in every trainer; raise as `train` does, after `limit` seconds of standstill."""
        assert self._cluster is not None
        ray, watch = self._cluster.ray, _Watch(limit)
        calls = [method(actor) for actor in self._actors]
        waiting = calls
        while waiting:
            done, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=watch.interval)
            if any(self._failure(call) for call in done):
                self._raise_first(calls)
            if waiting:
                self._look(watch, progress)
        return ray.get(calls)

    def _look(self, watch: _Watch, progress: Progress) -> None:
        """Ask the trainers for their pulses. Raises DistributedError if one does not answer, or none has got on."""
        assert self._cluster is not None
        ray, limit = self._cluster.ray, watch.limit
        asked = [actor.pulse.options(concurrency_group="pulse").remote() for actor in self._actors]
        _, silent_ones = ray.wait(asked, num_returns=len(asked), timeout=limit)
        if silent_ones:
            raise self._hanging(f"{self._name(asked.index(silent_ones[0]))} has not answered for {limit:g} s")
        if any(self._failure(call) for call in asked):
            return  # it has died; its call says so next
        pulses: list[Pulse] = ray.get(asked)
        if not watch.moves(pulses):
            raise self._hanging(f"none of the {len(asked)} trainers has got on for {limit:g} s")
        first = pulses[0]
        alike = [pulse for pulse in pulses if pulse.what == first.what]
        if first.total is not None:
            tokens = sum(pulse.tokens or 0 for pulse in alike)
            progress(sum(pulse.done for pulse in alike), first.total, first.what, tokens=tokens or None)

    def _failure(self, call: Any) -> Exception | None:
        """Return what a call that is done has raised, if anything."""
        assert self._cluster is not None
        try:
            self._cluster.ray.get(call)
        except Exception as cause:
            return cause
        return None

    def _raise_first(self, calls: list[Any]) -> None:
        """Raise what went wrong first: a death before an error, and an error of ours before one about a lost peer."""
        assert self._cluster is not None
        ray = self._cluster.ray
        done, _ = ray.wait(calls, num_returns=len(calls), timeout=_GRACE)
        found = {calls.index(call): failure for call in done if (failure := self._failure(call))}
        for rank, failure in found.items():
            if isinstance(failure, ray.exceptions.RayActorError):
                raise DistributedError(f"{self._name(rank)} has died", where="distributed", fix=_RESUME) from failure
        causes = [getattr(failure, "cause", None) or failure for failure in found.values()]
        raise next((cause for cause in causes if isinstance(cause, RlftError)), causes[0])

    def _hanging(self, what: str) -> DistributedError:
        fix = f"{_RESUME}; if it only takes long, raise distributed.timeout_seconds"
        return DistributedError(what, where="distributed", fix=fix)

    def _name(self, rank: int) -> str:
        process = f" (process {self._pids[rank]})" if self._pids else ""
        return f"trainer {rank + 1} of {self._settings.trainers}{process}"


def _kill(pids: list[int]) -> None:
    """Kill those of the processes that are still trainers."""
    for pid in pids:
        with suppress(psutil.Error):
            if "ray::" in "".join(psutil.Process(pid).cmdline()):
                psutil.Process(pid).kill()


class _Watch:
    """Remembers when the trainers last got on."""

    def __init__(self, limit: float) -> None:
        self.limit, self._beats, self._heard = limit, -1, time.monotonic()
        self.interval = min(1.0, limit / 4)

    def moves(self, pulses: list[Pulse]) -> bool:
        """Return whether any trainer has done anything within the limit."""
        beats, now = sum(pulse.beats for pulse in pulses), time.monotonic()
        if beats != self._beats:
            self._beats, self._heard = beats, now
        return now - self._heard <= self.limit
