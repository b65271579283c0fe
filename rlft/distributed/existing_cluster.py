"""A cluster of Ray that runs already, of which this machine is a part: joins it, and finds what is wrong with it.

A `Machine` is one of the cluster's, and `find_problem` says what keeps those from working there whom a run demands.
"""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import shutil
import socket
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlft.distributed import probe
from rlft.distributed.demand import Demand
from rlft.distributed.local_cluster import COMMON, counted, import_ray, said_by
from rlft.errors import DistributedError
from rlft.files import folder_prefix, remove_left_behind

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


_KIND = "meeting"  # of temporary folders
_ANSWER_SECONDS = 5.0
_AGAIN_SECONDS = 2.0
_LOOPBACK = ("127.0.0.1", "localhost")


class ExistingCluster:
    """A cluster as this process sees it; `cores` are those that each trainer takes, `engine_cores` those of an engine.

    Everything is checked that would keep what is demanded from working there; `folder` is where policies are stored.
    It sets variables of this process, which must not have imported Ray before. Raises DistributedError.
    """

    def __init__(self, demand: Demand, folder: Path) -> None:
        assert demand.settings.address is not None
        os.environ.update(COMMON)
        self.ray = _join(demand.settings.address)
        self._folder, self._meetings = folder, list[Path]()
        try:
            machines, here = _ask_machines(self.ray, folder)
            if problem := find_problem(machines, here, demand, folder=folder):
                raise problem
            free = [each.cpus for each in machines]
            self.cores = 1 if demand.on_gpu else cores_each(free, demand.trainers + demand.engines)
            self.engine_cores = self.cores
        except BaseException:
            self.ray.shutdown()
            raise

    def is_up(self) -> bool:
        """Return `True`: which of a cluster's programs has died is not known here."""
        return True

    def meeting(self) -> Path:
        """Return a new file by which the trainers can meet on whatever machine they are; it is there until `close`."""
        remove_left_behind(_KIND, self._folder)
        made = Path(tempfile.mkdtemp(prefix=folder_prefix(_KIND), dir=self._folder))
        self._meetings.append(made)
        return made / "meeting"

    def close(self) -> None:
        """Leave the cluster, which ends what this process has started there."""
        self.ray.shutdown()
        for made in self._meetings:
            shutil.rmtree(made, ignore_errors=True)


def _join(address: str) -> Any:
    """Return Ray, connected to the cluster. Raises DistributedError, which says why it cannot be."""
    if address == "auto":
        _refuse_another()
    else:
        _knock(address)
    host = address.rpartition(":")[0]
    if host in _LOOPBACK:  # else Ray takes this to be the machine's address on its network
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    ray = import_ray()
    silent: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "logging_level": logging.ERROR}
    try:
        ray.init(address=address, **silent)
    except ray.exceptions.AuthenticationError as cause:
        raise _no_token(address) from cause
    except Exception as cause:
        chain = _chain(cause)
        said = " ".join(str(each) for each in chain)
        if "Unauthenticated" in said or "AuthToken" in said or "AuthenticationError" in said:
            raise _no_token(address) from cause
        if address == "auto" and "Could not find any running Ray instance" in said:
            fix = "start it (`ray start --address=HOST:PORT`), give its address, or remove `address`"
            raise DistributedError("no Ray runs on this machine", where=ADDRESS, fix=fix) from cause
        why = next(filter(None, map(said_by, chain)), type(cause).__name__)
        raise DistributedError(
            f"the cluster at {address} cannot be joined: {why}",
            where=ADDRESS,
            fix="this machine must be one of the cluster's (`ray start --address=HOST:PORT`), with the same Ray",
        ) from cause
    return ray


def _refuse_another() -> None:
    """Raise DistributedError if RAY_ADDRESS names another machine, which Ray would take in place of `auto`.

    In the head's pod KubeRay sets it to 127.0.0.1 and a port, which is the Ray that runs there.
    """
    named = os.environ.get("RAY_ADDRESS", "")
    if named not in ("", "auto") and named.rpartition(":")[0] not in _LOOPBACK:
        raise DistributedError(
            "`auto` is the Ray that runs on this machine, and Ray would join the one that RAY_ADDRESS names instead",
            where=ADDRESS,
            fix="unset RAY_ADDRESS, or write HOST:PORT of the cluster's head in place of `auto`",
        )


def _knock(address: str) -> None:
    """Raise DistributedError if nobody listens at `HOST:PORT`: Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS).close()
    except OSError as cause:
        raise DistributedError(
            f"nothing answers at {address} ({cause})",
            where=ADDRESS,
            fix="start the cluster (`ray start --head`), or correct the address",
        ) from cause


def _no_token(address: str) -> DistributedError:
    return DistributedError(
        f"the cluster at {address} does not take this process's token, or there is none",
        where=ADDRESS,
        fix="put the cluster's token into RAY_AUTH_TOKEN, or its file into RAY_AUTH_TOKEN_PATH (default: "
        "~/.ray/auth_token)",
    )


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _ask_machines(ray: Any, folder: Path) -> tuple[list[Machine], dict[str, str]]:
    """Return all machines that are up, and what this one says of itself.

    Ray counts one that has died as up for half a minute. So those that fail are asked again until it knows.
    """
    pickle: Any = importlib.import_module("ray.cloudpickle")
    place = next(parent for parent in (folder, *folder.parents) if parent.exists())
    shared, limit = place / f".rlft-seen-{secrets.token_hex(4)}", time.monotonic() + PROBE_SECONDS
    pickle.register_pickle_by_value(probe)  # rlft may not be there, which is to be said as a sentence
    try:
        _write(shared)
        machines = _ask_once(ray, shared, limit)
        while any(each.says is None for each in machines) and time.monotonic() < limit:
            time.sleep(_AGAIN_SECONDS)
            machines = _ask_once(ray, shared, limit)
        return machines, probe.look_around(str(shared))
    finally:
        pickle.unregister_pickle_by_value(probe)
        with suppress(OSError):
            shared.unlink()


def _write(shared: Path) -> None:
    try:
        shared.write_text(secrets.token_hex(16))
    except OSError as cause:
        raise DistributedError(
            f"nothing can be written there, by which the machines of the cluster would be known to see it: {cause}",
            where=str(shared.parent),
            fix="let this user write there and make room, or set RLFT_HOME to a folder that all machines share",
        ) from cause


def _ask_once(ray: Any, shared: Path, limit: float) -> list[Machine]:
    """Return the machines that Ray takes to be up; one `says` nothing if it has not answered before `limit`."""
    strategies: Any = importlib.import_module("ray.util.scheduling_strategies")
    free = importlib.import_module("ray._private.state").available_resources_per_node()
    alive = [node for node in ray.nodes() if node["Alive"]]
    task = ray.remote(num_cpus=0, max_retries=0)(probe.look_around)
    asked = [
        task.options(
            scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
        ).remote(str(shared))
        for node in alive
    ]
    ray.wait(asked, num_returns=len(asked), timeout=max(0.0, limit - time.monotonic()))
    machines = []
    for node, call in zip(alive, asked, strict=True):
        has: dict[str, float] = free.get(node["NodeID"], {})
        machines.append(
            Machine(node["NodeManagerAddress"], has.get("CPU", 0.0), has.get("GPU", 0.0), _answer(ray, call))
        )
    return machines


def _answer(ray: Any, call: Any) -> dict[str, str] | None:
    try:
        return ray.get(call, timeout=0)
    except Exception:  # it has died, or not begun
        return None
