"""Starts Ray on this machine for one run: on loopback alone, with a token, without a dashboard to be opened."""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from rlft.distributed.demand import Demand
from rlft.environments.workers.machine import cores_here
from rlft.errors import DistributedError
from rlft.files import folder_prefix, remove_left_behind

RESUME = "`rlft resume` goes on with the run from its last finished round"
GONE = "has died, or its machine cannot be reached"
_MOST = 300


def counted(count: int, name: str) -> str:
    """Return a number of things: 1 engine, 2 engines."""
    return f"{count} {name}{'' if count == 1 else 's'}"


def said_by(error: BaseException) -> str:
    """Return what an error says in one line: its first one, or the last one of a traceback, which Ray hands on as text.

    It has 300 characters at most, and is empty if the error says nothing.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return ""
    is_trace = any(line.startswith("Traceback (most recent call last)") for line in lines)
    return lines[-1 if is_trace else 0][:_MOST]


LOOPBACK = "127.0.0.1"
_OBJECTS = 512 << 20
"""Bytes that Ray keeps free in memory for what it hands on: a round's rollouts."""
_KIND = "ray"  # of temporary folders
_RAYS = "r"  # of the folder: Ray lets every user of the machine write to what it is given
_SHORT = Path("/tmp")
_SOCKET = f"{_RAYS}/session_2026-01-01_00-00-00_000000_{{pid}}/sockets/plasma_store"
"""The longest path of a socket that Ray makes in the folder."""
_SOCKET_BYTES = 103 if sys.platform == "darwin" else 107
"""Bytes that the path of a socket may have."""
COMMON = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Seconds without its head after which Ray ends a process; 60 otherwise.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",
}
"""Variables of a process that uses Ray."""


def import_ray() -> Any:
    """Return Ray, which need not be installed, and which reads its variables when it is imported."""
    return importlib.import_module("ray")


def address_here() -> str:
    """Return the address that Ray knows this machine by."""
    return import_ray().util.get_node_ip_address()


class LocalCluster:
    """Ray, started on this machine; `cores` are those of each trainer, and `engine_cores` those of each engine.

    It sets variables of this process, which must not have imported Ray before. Trainers and engines have the same
    cores: they work in turns.
    """

    def __init__(self, demand: Demand) -> None:
        there = cores_here()
        self.cores, self.engine_cores = (max(1, there // max(1, size)) for size in (demand.trainers, demand.engines))
        cores = self.cores * demand.trainers + self.engine_cores * demand.engines
        self.folder = make_folder()
        token = self.folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        try:
            os.environ.update(_variables(token))
            if demand.on_gpu and not demand.trainers:
                os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(_other_gpus())
            for name in ("RAY_AUTH_TOKEN", "RAY_ADDRESS"):  # of another cluster
                os.environ.pop(name, None)
            self.ray = _start(self.folder / _RAYS, cores, demand.gpus)
        except Exception as cause:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise _does_not_start(cause, demand) from cause

    def is_up(self) -> bool:
        """Return whether the program of Ray's that runs trainers and engines here, the raylet, is alive."""
        with suppress(psutil.Error):
            return any(each.name() == "raylet" and each.status() != "zombie" for each in psutil.Process().children())
        return False

    def meeting(self) -> Path:
        """Return a new file by which the trainers can meet."""
        return self.folder / f"meeting-{secrets.token_hex(4)}"

    def close(self) -> None:
        """End Ray and all that runs in it."""
        self.ray.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)


def _does_not_start(cause: Exception, demand: Demand) -> DistributedError:
    """Return what to say of Ray that does not start: its programs die without memory, and it calls that anything."""
    is_named = isinstance(cause, ValueError | TypeError | OSError | ImportError)  # what it was given, or the disk
    said = said_by(cause) or type(cause).__name__
    if is_named:
        what, helps = f"Ray does not start on this machine: {said}", "mend what it names"
    else:
        what = f"Ray does not start on this machine: one of its programs has died or takes too long (Ray says: {said})"
        helps = "look whether this machine is short of memory or very busy"
    return DistributedError(what, where="distributed", fix=f"{helps}; {_way_on(demand)}")


def _way_on(demand: Demand) -> str:
    """Return how to go on with a run whose Ray does not start: engines are Ray's however many train."""
    return RESUME if demand.engines else f"{RESUME}, and with `--trainers 1` added it needs no Ray"


def make_folder() -> Path:
    """Make the folder for Ray's files, which this user alone can read, and remove those that ended processes left.

    It is where temporary files go, or in /tmp if the paths of Ray's sockets would be too long there. Raises
    DistributedError if it cannot be made.
    """
    remove_folders()
    parent, name = Path(tempfile.gettempdir()), folder_prefix(_KIND, short=True)
    longest = parent / f"{name}{8 * 'x'}" / _SOCKET.format(pid=os.getpid())  # eight bytes are those of `mkdtemp`
    if len(os.fsencode(longest)) > _SOCKET_BYTES:
        parent = _SHORT
    try:
        return Path(tempfile.mkdtemp(prefix=name, dir=parent))
    except OSError as cause:
        raise DistributedError(
            f"no folder for Ray can be made: {cause}",
            where="distributed",
            fix=f"let this user write to {parent}, and make room there; {RESUME}",
        ) from cause


def remove_folders() -> None:
    """Remove the folders for Ray of those processes of this machine that have ended."""
    for parent in {Path(tempfile.gettempdir()), _SHORT}:
        remove_left_behind(_KIND, parent, short=True)


def _variables(token: Path) -> dict[str, str]:
    return {
        **COMMON,
        "RAY_AUTH_TOKEN_PATH": str(token),
        # As on other systems, where Ray has no cluster: every port is on 127.0.0.1.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_worker_niceness": "0",  # 15 otherwise: anything else on the machine would come before the training
    }


def _other_gpus() -> list[str]:
    """Return the GPUs of this machine but the first, which the run's own process has."""
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    found = [str(number) for number in range(torch.cuda.device_count())] if named is None else named.split(",")
    return found[1:]


def _start(folder: Path, cores: int, gpus: int) -> Any:
    ray = import_ray()
    ray.init(
        address="local",
        num_cpus=cores,
        num_gpus=gpus,
        object_store_memory=_OBJECTS,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
        logging_level=logging.ERROR,
        _temp_dir=str(folder),
    )
    return ray
