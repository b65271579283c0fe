"""The engines of a run, as the process that uses Ray sees them: an actor for each, with a server on its machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rlft.distributed.demand import Demand
from rlft.distributed.existing_cluster import ExistingCluster
from rlft.distributed.local_cluster import GONE, LOOPBACK, LocalCluster, address_here
from rlft.engines.ordered import Order, Ordered, Served
from rlft.errors import DistributedError, EngineError


class EngineActor:
    """Starts one server, and ends with it."""

    def __init__(self) -> None:
        self._ordered: Ordered | None = None

    def start(self, order: Order, cores: int, within: float, on_loopback: bool) -> Served:
        """Start the server and return it once it answers, which may take `within` seconds.

        On a CPU it computes with `cores` threads. It listens on loopback, or else on the address that Ray knows this
        machine by. Raises EngineError.
        """
        self._ordered = Ordered(order, LOOPBACK if on_loopback else address_here(), cores)
        self._ordered.wait(within)
        return self._ordered.served

    def stop(self) -> None:
        """End the server."""
        if self._ordered is not None:
            self._ordered.stop()


_END_SECONDS = 10.0
_SLACK = 60.0
"""Seconds on top of those of a server's start, in which Ray starts the process that has it."""


class EngineActors:
    """The actors; `tick` is called again and again while they start."""

    def __init__(self, cluster: LocalCluster | ExistingCluster, demand: Demand, tick: Callable[[], None]) -> None:
        self._cluster, self._demand, self._tick = cluster, demand, tick
        self._actors: list[Any] = []

    def start(self, order: Order, within: float) -> list[Served]:
        """Start all servers side by side, and return them once all answer, each within so many seconds.

        Raises EngineError if one does not start, and DistributedError if its process dies.
        """
        ray, demand = self._cluster.ray, self._demand
        gpus = demand.gpus_each if order.on_gpu else 0
        made = ray.remote(num_cpus=self._cluster.engine_cores, num_gpus=gpus, max_restarts=0)(EngineActor)
        self._actors = [made.remote() for _ in range(demand.engines)]
        on_loopback = demand.settings.address is None
        calls = [each.start.remote(order, self._cluster.engine_cores, within, on_loopback) for each in self._actors]
        waiting, left = calls, within + _SLACK
        while waiting and left > 0:
            done, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=1.0)
            left -= 1.0
            self._tick()
            for call in done:
                self._check(calls.index(call), call)
        if waiting:
            raise self._missing(calls.index(waiting[0]), f"has not started within {within + _SLACK:g} s")
        return ray.get(calls)

    def close(self) -> None:
        """End all servers and their actors."""
        ray, actors = self._cluster.ray, self._actors
        self._actors = []
        with suppress(Exception):  # those that have died have ended with their servers
            ray.wait([each.stop.remote() for each in actors], num_returns=len(actors), timeout=_END_SECONDS)
        for each in actors:
            with suppress(Exception):
                ray.kill(each)

    def _check(self, number: int, call: Any) -> None:
        """Raise what has kept an engine from starting, if anything has."""
        ray = self._cluster.ray
        try:
            ray.get(call)
        except ray.exceptions.ActorUnavailableError as cause:
            raise self._missing(number, GONE) from cause
        except ray.exceptions.RayActorError as cause:
            raise self._missing(number, "has died while it started") from cause
        except Exception as cause:
            failed = getattr(cause, "cause", None) or cause
            if isinstance(failed, EngineError):
                fix = "mend what they name; rollout.vllm (max_model_len, cache_gib, ...) says how much room it takes"
                raise EngineError(failed.what, where="rollout.server.engines", fix=fix) from cause
            raise failed from cause

    def _missing(self, number: int, what: str) -> DistributedError:
        return DistributedError(
            f"engine {number + 1} of {self._demand.engines} {what}",
            where="rollout.server.engines",
            fix="look whether its machine is up, has memory, and has what it needs free (`ray status`)",
        )
