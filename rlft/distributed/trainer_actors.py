"""The processes that train together, each with a `TrainerActor`, and the watch over them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil

from rlft.distributed.demand import Demand
from rlft.distributed.existing_cluster import ExistingCluster
from rlft.distributed.local_cluster import GONE, RESUME, LocalCluster
from rlft.distributed.trainer_actor import Place, Pulse, TrainerActor, are_together
from rlft.errors import DistributedError, RlftError
from rlft.progress import Progress, silent
from rlft.training.job import Job
from rlft.types import TrainReport

_START_SECONDS = 300.0
"""Seconds that the processes may take at least to start, in which each imports torch and transformers."""
_ALL_DEAD = "Ray's own program on this machine (raylet) has died, and the trainers with it"
_COLOURS = re.compile("\x1b\\[[0-9;]*m")
_GRACE = 3.0
"""Seconds in which the others fail, too, once a trainer has: the first to be heard of may only have lost a peer."""


class TrainerActors:
    """The trainers, as the process sees them that directs them; they are started by the first round.

    `pids` is called with the numbers of their processes; that of one on another machine is 0. `tick` is called again
    and again while they train.
    """

    def __init__(
        self,
        cluster: LocalCluster | ExistingCluster,
        demand: Demand,
        *,
        pids: Callable[[list[int]], None],
        tick: Callable[[], None],
    ) -> None:
        self._cluster, self._settings, self._on_gpu = cluster, demand.settings, demand.on_gpu
        self._size = demand.trainers
        self._tell_pids, self._tick = pids, tick
        self._actors: list[Any] = []
        self._places: list[Place] = []
        self._pids: list[int] = []  # those of other machines are 0

    def train(self, job: Job, progress: Progress = silent) -> TrainReport:
        """Train a round; the policy that it makes is in `job.target` unless the report says that it was stopped.

        Raises DistributedError if a trainer dies or hangs, and what a trainer raises.
        """
        if not self._actors:
            self._start(progress)
        given = self._cluster.ray.put(job)
        return self._call(lambda actor: actor.train.remote(given), progress, self._settings.timeout_seconds)[0]

    def close(self, *, by_force: bool = False) -> list[int]:
        """End the trainers, by force where one may be stopped. Return their processes here: Ray is to end them, too."""
        actors, pids = self._actors, [pid for pid in self._pids if pid]
        self._actors, self._places, self._pids = [], [], []
        if by_force:
            kill_trainers(pids)
            for actor in actors:
                with suppress(Exception):
                    self._cluster.ray.kill(actor)
        return pids

    def _start(self, progress: Progress) -> None:
        size, seconds = self._size, self._settings.timeout_seconds
        # As many threads as cores, unless OMP_NUM_THREADS says otherwise.
        made = self._cluster.ray.remote(
            num_cpus=self._cluster.cores, num_gpus=int(self._on_gpu), max_restarts=0, concurrency_groups={"pulse": 1}
        )(TrainerActor)
        self._actors = [made.remote(rank, size, self._settings.sharding) for rank in range(size)]
        self._places = self._wait_for_places(max(seconds, _START_SECONDS), progress)
        own = Place.here()
        self._pids = [each.pid if own.sees(each) else 0 for each in self._places]
        self._tell_pids(self._pids)
        meeting, device = self._cluster.meeting(), "cuda" if self._on_gpu else "cpu"
        # Twice the limit, since it is the watch that says who hangs.
        self._call(
            lambda actor: actor.join.remote(meeting, device, 2 * seconds, are_together(self._places)), silent, seconds
        )

    def _wait_for_places(self, limit: float, progress: Progress) -> list[Place]:
        """Return where all trainers are. Raises DistributedError if one has not started after so many seconds."""
        ray, ends = self._cluster.ray, time.monotonic() + limit
        calls = waiting = [actor.place.remote() for actor in self._actors]
        while waiting:
            done, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=1.0)
            if any(self._failure(call) for call in done):
                self._raise_first(calls)
            self._tick()
            started = len(calls) - len(waiting)
            if waiting:
                progress(started, len(calls), "trainers started")
            if waiting and time.monotonic() > ends:
                raise DistributedError(
                    f"{started} of {len(calls)} trainers have started within {limit:g} s",
                    where="distributed",
                    fix=f"look whether another run has the cores or GPUs that the others wait for; {RESUME}",
                )
        return ray.get(calls)

    def _call(self, method: Callable[[Any], Any], progress: Progress, limit: float) -> list[Any]:
        """Return what a method returns in every trainer; raise as `train` does, after `limit` seconds of standstill."""
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
        self._tick()
        ray, limit = self._cluster.ray, watch.limit
        asked = [actor.pulse.options(concurrency_group="pulse").remote() for actor in self._actors]
        _, silent_ones = ray.wait(asked, num_returns=len(asked), timeout=limit)
        if silent_ones:
            raise self._hanging(f"{self._name(asked.index(silent_ones[0]))} has not answered for {limit:g} s")
        failed = next((rank for rank, call in enumerate(asked) if self._failure(call)), None)
        if failed is not None:  # it has died; its call says so next, or never
            if watch.is_over():
                raise self._hanging(f"{self._name(failed)} has not said for {limit:g} s how far it is")
            return
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
        try:
            self._cluster.ray.get(call)
        except Exception as cause:
            return cause
        return None

    def _raise_first(self, calls: list[Any]) -> None:
        """Raise what went wrong first: a death before an error, and an error of ours before one about a lost peer."""
        ray = self._cluster.ray
        done, _ = ray.wait(calls, num_returns=len(calls), timeout=_GRACE)
        found = {calls.index(call): failure for call in done if (failure := self._failure(call))}
        for rank, failure in found.items():
            if isinstance(failure, ray.exceptions.RayActorError):
                is_away = isinstance(failure, ray.exceptions.ActorUnavailableError)
                what = f"{self._name(rank)} {GONE if is_away else 'has died'}"
                what = what if self._cluster.is_up() else _ALL_DEAD
                raise DistributedError(what, where="distributed", fix=RESUME) from failure
        failures = sorted(found.values(), key=lambda failure: not isinstance(_cause_of(failure), RlftError))
        raise _with_place(failures[0])

    def _hanging(self, what: str) -> DistributedError:
        fix = f"{RESUME}; if it only takes long, raise distributed.timeout_seconds"
        return DistributedError(what, where="distributed", fix=fix)

    def _name(self, rank: int) -> str:
        process = ""
        if self._places:
            place = self._places[rank]
            machine = f" on {place.address}" if self._settings.address is not None else ""
            process = f" (process {place.pid}{machine})"
        return f"trainer {rank + 1} of {self._size}{process}"


def _cause_of(failure: Exception) -> Exception:
    return getattr(failure, "cause", None) or failure


def _with_place(failure: Exception) -> Exception:
    """Return what a trainer has raised; if nobody has foreseen it, with a note of where in the trainer it was."""
    cause = _cause_of(failure)
    if cause is not failure and not isinstance(cause, RlftError):
        cause.add_note(_COLOURS.sub("", str(failure)))  # which has the trainer's traceback
    return cause


def kill_trainers(pids: list[int]) -> None:
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
        beats = sum(pulse.beats for pulse in pulses)
        if beats != self._beats:
            self._beats, self._heard = beats, time.monotonic()
        return not self.is_over()

    def is_over(self) -> bool:
        """Return whether nothing was heard within the limit."""
        return time.monotonic() - self._heard > self.limit
