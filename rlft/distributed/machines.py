"""The machines of a cluster that runs already, and what keeps those from working there whom a run demands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rlft.distributed.demand import Demand
from rlft.distributed.words import counted
from rlft.errors import DistributedError

ADDRESS = "distributed.address"
"""The setting that is to blame."""
PROBE_SECONDS = 120.0
"""A machine that has answered nothing for so long is taken to be lost."""
_SHOWN = 4
"""Machines that a message lists."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A raylet of a cluster: what of it is free, and what it says of itself (`probe.look_around`), if it answers."""

    name: str
    cpus: float
    gpus: float
    says: dict[str, str] | None


def cores_each(free: list[float], size: int) -> int:
    """Return the most cores that each of `size` trainers can have on machines with so many free; 0 if they have none.

    A trainer is on one machine: 3 and 3 free cores are 2 trainers of 3, or 3 of 1.
    """
    for cores in range(int(max(free, default=0)), 0, -1):
        if sum(int(each) // cores for each in free) >= size:
            return cores
    return 0


def find_problem(
    machines: list[Machine], here: dict[str, str], demand: Demand, *, folder: Path
) -> DistributedError | None:
    """Return what keeps the demanded from working on these machines, the first of what is found; else `None`.

    `here` is what this machine says of itself.
    """
    for each in machines:
        if each.says is None:
            what = f"the machine {each.name} of the cluster has run nothing for {PROBE_SECONDS:g} s"
            return DistributedError(what, where=ADDRESS, fix="look at its raylet (`ray status`), or take it out")
        if each.says["tokens"] != "token":
            what = f"the machine {each.name} runs Ray without a token, so anybody who reaches it can run programs there"
            return DistributedError(what, where=ADDRESS, fix="start Ray there with RAY_AUTH_MODE=token")
        if other := _other_versions(each.says, here, engines=demand.engines > 0):
            what = f"the machine {each.name} has {other}"
            return DistributedError(what, where=ADDRESS, fix="install the same there as here, and start its Ray again")
        if each.says["shared"] != here["shared"]:
            what = f"the machine {each.name} does not see {folder}, where the policies of runs are stored"
            fix = "put RLFT_HOME on a file system that all machines share, at the same path"
            return DistributedError(what, where=ADDRESS, fix=fix)
    return too_little(machines, demand)


def too_little(machines: list[Machine], demand: Demand) -> DistributedError | None:
    """Return which trainers or engines have no room on these machines, if any."""
    trainers, engines = demand.trainers, demand.engines
    if not demand.on_gpu:
        if trainers + engines == 0 or cores_each([each.cpus for each in machines], trainers + engines):
            return None
        cores = sum(int(each.cpus) for each in machines)
        return _too_few(demand, f"{_processes(demand)} a free core each, and the cluster has {cores}")
    rooms = rooms_beside(machines, engines, demand.gpus_each)
    free = f"free {_free(machines)}"
    if len(rooms) <= engines:
        need = "a free GPU" if demand.gpus_each == 1 else f"{demand.gpus_each} free GPUs"
        room = f"the cluster has room for {len(rooms) - 1} of {engines}"
        what = f"an engine needs {need} and a free core of one machine, and {room} ({free})"
        return _too_few(demand, what, where="rollout.server.engines")
    if rooms[engines] < trainers:
        beside = f" beside {counted(engines, 'engine')} of {counted(demand.gpus_each, 'GPU')}" if engines else ""
        need = "a free GPU and a free core of one machine each"
        what = f"{trainers} trainers need {need}, and the cluster has room for {rooms[engines]}{beside} ({free})"
        return _too_few(demand, what)
    return None


def rooms_beside(machines: list[Machine], engines: int, gpus_each: int) -> list[int]:
    """Return for 0, 1, ... engines how many trainers find room beside them, up to as many engines as have room at all.

    An engine takes `gpus_each` GPUs and a core of one machine, a trainer a GPU and a core.
    """
    rooms = [0]
    for each in machines:
        gpus, cores = int(each.gpus), int(each.cpus)
        here = [
            min(gpus - count * gpus_each, cores - count) for count in range(min(gpus // gpus_each, cores, engines) + 1)
        ]
        most = min(len(rooms) + len(here) - 2, engines)
        rooms = [
            max(rooms[count - own] + here[own] for own in range(len(here)) if 0 <= count - own < len(rooms))
            for count in range(most + 1)
        ]
    return rooms


def _free(machines: list[Machine]) -> str:
    shown = [f"{int(each.gpus)} and {int(each.cpus)} on {each.name}" for each in machines[:_SHOWN]]
    more = f", and {len(machines) - _SHOWN} more machines" if len(machines) > _SHOWN else ""
    return f"GPUs and cores: {', '.join(shown)}{more}"


def _processes(demand: Demand) -> str:
    counts = {"trainer": demand.trainers, "engine": demand.engines}
    verb = "needs" if sum(counts.values()) == 1 else "need"
    return f"{' and '.join(counted(count, name) for name, count in counts.items() if count)} {verb}"


def _too_few(demand: Demand, what: str, where: str = "") -> DistributedError:
    where = where or ("distributed.trainers" if demand.trainers else "rollout.server.engines")
    return DistributedError(what, where=where, fix="ask for fewer, wait until others are done, or add machines")


def _other_versions(there: dict[str, str], here: dict[str, str], *, engines: bool) -> str:
    without = {"shared", "tokens"} | (set() if engines else {"vllm"})
    names = [name for name in here if name not in without and there[name] != here[name]]
    if names == ["rlft"] and there["rlft"]:
        return f"other code of rlft (sha256 {there['rlft']}) than this one ({here['rlft']})"
    return ", ".join(
        f"{name} {there[name]} where this one has {here[name]}" if there[name] else f"no {name}" for name in names
    )
