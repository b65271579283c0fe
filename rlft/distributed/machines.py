"""The machines of a cluster that runs already, and what keeps those from working there whom a run demands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rlft.distributed.demand import Demand
from rlft.errors import DistributedError

ADDRESS = "distributed.address"
"""The setting that is to blame."""
PROBE_SECONDS = 120.0
"""A machine that has answered nothing for so long is taken to be lost."""


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
        return _too_few(demand, "a free core each", sum(int(each.cpus) for each in machines))
    free = [int(each.gpus) for each in machines if each.cpus >= 1]
    if sum(gpus // demand.gpus_each for gpus in free) < engines:
        return _too_few(demand, f"{demand.gpus_each} free GPUs of one machine for each engine", sum(free))
    if sum(int(min(each.gpus, each.cpus)) for each in machines) < demand.gpus:
        return _too_few(demand, "a free GPU and a core each", sum(free))
    return None


def _too_few(demand: Demand, need: str, free: int) -> DistributedError:
    counts = {"trainers": demand.trainers, "engines": demand.engines}
    what = " and ".join(f"{count} {name}" for name, count in counts.items() if count)
    where = "distributed.trainers" if demand.trainers else "rollout.server.engines"
    fix = "ask for fewer, wait until others are done, or add machines"
    return DistributedError(f"{what} need {need}, and the cluster has {free}", where=where, fix=fix)


def _other_versions(there: dict[str, str], here: dict[str, str], *, engines: bool) -> str:
    without = {"shared", "tokens"} | (set() if engines else {"vllm"})
    names = [name for name in here if name not in without and there[name] != here[name]]
    if names == ["rlft"] and there["rlft"]:
        return f"other code of rlft (sha256 {there['rlft']}) than this one ({here['rlft']})"
    return ", ".join(
        f"{name} {there[name]} where this one has {here[name]}" if there[name] else f"no {name}" for name in names
    )
