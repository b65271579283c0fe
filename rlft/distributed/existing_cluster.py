"""A cluster of Ray that runs already, of which this machine is a part: joins it, and finds what is wrong with it."""

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
from pathlib import Path
from typing import Any

from rlft.distributed import probe
from rlft.distributed.demand import Demand
from rlft.distributed.local_cluster import COMMON, import_ray
from rlft.distributed.machines import ADDRESS, PROBE_SECONDS, Machine, cores_each, find_problem
from rlft.distributed.words import said_by
from rlft.errors import DistributedError
from rlft.temporary import folder_prefix, remove_left_behind

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
