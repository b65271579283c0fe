"""How Ray is started on this machine: where its files are, and what is said if it does not start."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from rlft.config import DistributedConfig
from rlft.distributed import local_cluster
from rlft.distributed.demand import Demand
from rlft.distributed.local_cluster import LocalCluster, make_folder
from rlft.errors import DistributedError
from tests.left_behind import left_behind
from tests.needs import need_ray

# What Ray puts below its folder, with the largest number that Linux gives a process; a socket's path has 107 bytes.
SOCKET = "r/session_2026-11-27_17-44-27_123456_4194304/sockets/plasma_store"


@pytest.mark.parametrize("host", ["h", "ip-10-0-0-7.eu-central-1.compute.internal", 63 * "h"])
@pytest.mark.parametrize("deep", [False, True])
def test_rays_sockets_have_short_paths_whatever_the_machine_and_tmpdir_are_called(tmp_path, monkeypatch, host, deep):
    parent = tmp_path / (100 * "d") if deep else Path("/tmp")
    parent.mkdir(exist_ok=True)
    monkeypatch.setattr("platform.node", lambda: host)
    monkeypatch.setattr("tempfile.tempdir", str(parent))
    monkeypatch.setattr("os.getpid", lambda: 4194304)
    folder = make_folder()
    try:
        assert len(os.fsencode(folder / SOCKET)) <= 107
        assert folder.is_dir()
        assert folder.stat().st_mode & 0o077 == 0
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("deep", [False, True])
def test_what_a_killed_run_left_of_ray_is_removed(tmp_path, monkeypatch, deep):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / (100 * "d")) if deep else "/tmp")
    left = left_behind("ray", Path("/tmp"), short=True)
    assert not psutil.pid_exists(int(left.name.split("-")[-2]))
    folder = make_folder()
    try:
        assert not left.exists()
        again = make_folder()
        assert folder.exists()  # this process lives
        shutil.rmtree(again)
    finally:
        shutil.rmtree(folder)


def test_a_place_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    monkeypatch.setattr("rlft.distributed.local_cluster._SOCKET_BYTES", 1000)
    with pytest.raises(DistributedError, match="no folder for Ray can be made") as caught:
        make_folder()
    assert str(tmp_path / "file") in caught.value.fix
    assert "`rlft resume`" in caught.value.fix


@pytest.fixture
def started(monkeypatch):
    """The cores and GPUs that Ray was started with, without starting it, and with this process's variables kept."""
    found: list[tuple[int, int]] = []

    def start(folder: Path, cores: int, gpus: int) -> SimpleNamespace:
        found.append((cores, gpus))
        return SimpleNamespace(shutdown=lambda: None)

    monkeypatch.setattr(local_cluster, "_start", start)
    monkeypatch.setattr("os.environ", dict(os.environ))
    return found


def test_trainers_divide_the_cores_of_this_process_and_not_those_of_its_machine(started, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    monkeypatch.setattr(local_cluster, "cores_here", lambda: 6)
    ray = LocalCluster(Demand(DistributedConfig(engine="ray", trainers=2), on_gpu=False, trainers=2, engines=3))
    try:
        assert (ray.cores, ray.engine_cores) == (3, 2)
        assert started == [(12, 0)]  # they work in turns, so all cores are there twice
    finally:
        ray.close()


NAMED = "Ray does not start on this machine: {}"
DIED = "Ray does not start on this machine: one of its programs has died or takes too long (Ray says: {})"
GPUS = "Attempting to start raylet with 4 GPU, but CUDA_VISIBLE_DEVICES contains ['1']."
MEND, MEMORY = "mend what it names; ", "look whether this machine is short of memory or very busy; "


@pytest.mark.parametrize(
    ("cause", "what", "helps"),
    [
        (ValueError(GPUS), NAMED.format(GPUS), MEND),
        (OSError(28, "No space left on device"), NAMED.format("[Errno 28] No space left on device"), MEND),
        (RuntimeError("Failed to start GCS.\nMore."), DIED.format("Failed to start GCS."), MEMORY),
        (Exception("The current node timed out."), DIED.format("The current node timed out."), MEMORY),
        (AssertionError(), DIED.format("AssertionError"), MEMORY),
    ],
)
@pytest.mark.parametrize(("engines", "without_ray"), [(0, ", and with `--trainers 1` added it needs no Ray"), (2, "")])
def test_a_ray_that_does_not_start_is_said_with_the_way_on(
    started, monkeypatch, cause, what, helps, engines, without_ray
):
    def fail(*_: object) -> None:
        raise cause

    monkeypatch.setattr(local_cluster, "_start", fail)
    with pytest.raises(DistributedError) as caught:
        LocalCluster(Demand(DistributedConfig(engine="ray", trainers=2), on_gpu=False, trainers=2, engines=engines))
    assert caught.value.what == what
    assert caught.value.fix == f"{helps}`rlft resume` goes on with the run from its last finished round{without_ray}"


# Starts Ray, and prints who may do what with its folder, and with what lies above and below.
MODES = """
import json
from rlft.config import DistributedConfig
from rlft.distributed.local_cluster import LocalCluster
from rlft.distributed.demand import Demand
cluster = LocalCluster(Demand(DistributedConfig(engine="ray", trainers=1), False, 1))
files = [cluster.folder, cluster.folder / "token", *cluster.folder.glob("r/session_2*")]
print(json.dumps([[str(file), oct(file.stat().st_mode & 0o777)] for file in files]))
cluster.close()
"""


@pytest.mark.slow
def test_nobody_else_reaches_rays_files_though_ray_lets_everybody_write_to_its_own():
    need_ray()
    done = subprocess.run([sys.executable, "-c", MODES], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (folder, own), (_, token), (session, rays) = json.loads(done.stdout.splitlines()[-1])
    assert (own, token) == ("0o700", "0o600")
    assert rays == "0o777"  # why the folder above must be closed
    assert Path(folder) in Path(session).parents
    assert not Path(folder).exists()
