"""Ray for one run: started on this machine, on loopback alone and with a token, or a cluster that runs already."""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Any

from rlft.config import DistributedConfig
from rlft.environments.workers.pool import cores_here
from rlft.errors import DistributedError
from rlft.files import folder_prefix, remove_left_behind

RESUME = "`rlft resume` goes on with the run from its last finished round"
LOOPBACK = "127.0.0.1"
ADDRESS = "distributed.address"
"""The setting that is to blame where a cluster does not do."""
_RAY_KIND, _MEETING_KIND = "ray", "meeting"  # of temporary folders
_RAYS = "r"  # of a folder: Ray lets every user of the machine write to what it is given
_SHORT = Path("/tmp")  # the path of a socket has some hundred bytes at most, of which Ray adds seventy
_OBJECTS = 512 << 20
"""Bytes that Ray keeps free in memory for what it hands on: a round's rollouts."""
_COMMON = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Seconds without its head after which Ray ends a process; 60 otherwise.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",
}
_SILENT: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "logging_level": logging.ERROR}
_KNOCK_SECONDS = 5.0
_ROOM_SECONDS = 30.0
_MOST = 300


def said_by(error: BaseException) -> str:
    """Return what an error says in one line: its first one, or the last one of a traceback, which Ray hands on as text.

    It has 300 characters at most; of an error that says nothing it is the type.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    is_trace = any(line.startswith("Traceback (most recent call last)") for line in lines)
    return lines[-1 if is_trace else 0][:_MOST]


def import_ray() -> Any:
    """Return Ray, which need not be installed, and which reads its variables when it is imported."""
    return importlib.import_module("ray")


def address_here() -> str:
    """Return the address that Ray knows this machine by."""
    return import_ray().util.get_node_ip_address()


class Cluster:
    """Ray with room for the trainers, each of which has so many `cores`, or a GPU as well.

    Making one sets variables of this process, which must not have imported Ray before.
    """

    ray: Any
    cores = 1

    def meeting(self) -> Path:
        """Return a new file by which the trainers can meet; it is there until `close`."""
        raise NotImplementedError

    def close(self) -> None:
        """End what this process has started in Ray."""
        self.ray.shutdown()

    def options(self, place: int, *, gpus: int) -> dict[str, Any]:
        """Return Ray's options of the trainer that takes the place of this number."""
        strategies: Any = importlib.import_module("ray.util.scheduling_strategies")
        strategy = strategies.PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=place)
        return {"num_cpus": self.cores, "num_gpus": gpus, "max_restarts": 0, "scheduling_strategy": strategy}

    def _reserve(self, trainers: int, on_gpu: bool) -> None:
        """Take the places of all trainers. Raises DistributedError if there is no room for them."""
        place = {"CPU": self.cores, "GPU": int(on_gpu)}
        self._group = self.ray.util.placement_group([place] * trainers, strategy="PACK")
        if not self._group.wait(_ROOM_SECONDS):
            free = self.ray.available_resources()
            raise DistributedError(
                f"{trainers} trainers need a core {'and a GPU ' if on_gpu else ''}each, and Ray has no room for them: "
                f"free are {free.get('CPU', 0):g} cores and {free.get('GPU', 0):g} GPUs",
                where="distributed.trainers",
                fix="ask for fewer, wait until others are done, or add machines",
            )


def make_folder() -> Path:
    """Make the folder for Ray's files, which this user alone can read, and remove those that ended processes left.

    Raises DistributedError if it cannot be made.
    """
    remove_folders()
    try:
        return Path(tempfile.mkdtemp(prefix=folder_prefix(_RAY_KIND), dir=_SHORT))
    except OSError as cause:
        fix = f"let this user write to {_SHORT}, and make room there; {RESUME}"
        raise DistributedError(f"no folder for Ray can be made: {cause}", where="distributed", fix=fix) from cause


def remove_folders() -> None:
    """Remove the folders for Ray of those processes of this machine that have ended."""
    remove_left_behind(_RAY_KIND, _SHORT)


class LocalCluster(Cluster):
    """Ray, started on this machine. On CPUs the trainers divide its cores."""

    def __init__(self, settings: DistributedConfig, on_gpu: bool) -> None:
        self.cores = max(1, cores_here() // settings.trainers)
        self.folder = make_folder()
        token = self.folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        os.environ.update(
            _COMMON,
            RAY_AUTH_TOKEN_PATH=str(token),
            RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",  # as on other systems, where Ray has no cluster: all on loopback
            RAY_worker_niceness="0",  # 15 otherwise: anything else on the machine would come before the training
        )
        for name in ("RAY_AUTH_TOKEN", "RAY_ADDRESS"):  # of another cluster
            os.environ.pop(name, None)
        try:
            gpus = settings.trainers if on_gpu else 0
            self.ray = _start(self.folder / _RAYS, self.cores * settings.trainers, gpus)
        except Exception as cause:
            shutil.rmtree(self.folder, ignore_errors=True)
            what = f"Ray does not start on this machine: {said_by(cause)}"
            fix = f"look whether this machine is short of memory or very busy; {RESUME}"
            raise DistributedError(what, where="distributed", fix=fix) from cause
        try:
            self._reserve(settings.trainers, on_gpu)
        except BaseException:
            self.close()
            raise

    def meeting(self) -> Path:
        """Return a new file by which the trainers can meet; it is there until `close`."""
        return self.folder / f"meeting-{secrets.token_hex(4)}"

    def close(self) -> None:
        """End Ray and all that runs in it."""
        self.ray.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)


def _start(folder: Path, cores: int, gpus: int) -> Any:
    ray = import_ray()
    ray.init(
        address="local",
        num_cpus=cores,
        num_gpus=gpus,
        object_store_memory=_OBJECTS,
        include_dashboard=False,
        _temp_dir=str(folder),
        **_SILENT,
    )
    return ray


class ExistingCluster(Cluster):
    """A cluster that runs already, and of which this machine is a part; on CPUs every process has one core.

    Every machine must be as this one is; `folder` is where policies are stored. Raises DistributedError.
    """

    def __init__(self, settings: DistributedConfig, on_gpu: bool, folder: Path) -> None:
        assert settings.address is not None
        os.environ.update(_COMMON)
        self.ray = _join(settings.address)
        self._folder, self._meetings = folder, list[Path]()
        try:
            self._reserve(settings.trainers, on_gpu)
        except BaseException:
            self.ray.shutdown()
            raise

    def meeting(self) -> Path:
        """Return a new file by which the trainers can meet on whatever machine they are; it is there until `close`."""
        remove_left_behind(_MEETING_KIND, self._folder)
        made = Path(tempfile.mkdtemp(prefix=folder_prefix(_MEETING_KIND), dir=self._folder))
        self._meetings.append(made)
        return made / "meeting"

    def close(self) -> None:
        """Leave the cluster, which ends what this process has started there."""
        self.ray.shutdown()
        for made in self._meetings:
            shutil.rmtree(made, ignore_errors=True)


def _join(address: str) -> Any:
    """Return Ray, connected to the cluster. Raises DistributedError with Ray's words if it cannot be."""
    host, _, port = address.rpartition(":")
    if host in (LOOPBACK, "localhost"):  # else Ray takes this to be the machine's address on its network
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    try:
        if address != "auto":  # Ray would try for minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_SECONDS).close()
        ray = import_ray()
        ray.init(address=address, **_SILENT)
    except Exception as cause:
        raise DistributedError(
            f"the cluster at {address} cannot be joined: {said_by(cause)}",
            where=ADDRESS,
            fix="this machine must be one of the cluster's (`ray start --address=HOST:PORT`), with the same Ray, and "
            "the cluster's token in RAY_AUTH_TOKEN or in the file RAY_AUTH_TOKEN_PATH (default: ~/.ray/auth_token)",
        ) from cause
    return ray
