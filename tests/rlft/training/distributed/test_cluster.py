"""Ray as it is started on this machine, and a cluster that runs already."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from rlft.config import DistributedConfig
from rlft.errors import DistributedError
from rlft.models import PolicyFolder, save_policy
from rlft.training.distributed import cluster as module
from rlft.training.distributed.cluster import LocalCluster, make_folder
from rlft.training.distributed.director import find_problem
from tests.factories import make_policy
from tests.left_behind import left_behind
from tests.needs import need_ray
from tests.rlft.training.distributed.processes import trainer_processes
from tests.rlft.training.distributed.real_cluster import running
from tests.rlft.training.distributed.test_trainers import job, start_trainers, train_often


def test_what_a_killed_run_left_of_ray_is_removed_and_nobody_else_reads_the_folder():
    left = left_behind("ray", Path("/tmp"))
    folder = make_folder()
    try:
        assert not left.exists()
        again = make_folder()
        assert folder.exists()  # this process lives
        shutil.rmtree(again)
        assert folder.stat().st_mode & 0o077 == 0
        longest = "r/session_2026-11-27_17-44-27_123456_4194304/sockets/plasma_store"
        assert len(os.fsencode(folder / longest)) <= 107  # bytes that Linux allows a socket's path
    finally:
        shutil.rmtree(folder)


def test_an_address_where_nobody_listens_is_named():
    with pytest.raises(DistributedError, match=r"the cluster at 127\.0\.0\.1:9 cannot be joined: .*refused"):
        module._join("127.0.0.1:9")


@pytest.fixture
def started(monkeypatch):
    """The cores and GPUs that Ray was started with, without starting it, and with this process's variables kept."""
    found: list[tuple[int, int]] = []

    def start(folder: Path, cores: int, gpus: int) -> SimpleNamespace:
        found.append((cores, gpus))
        return SimpleNamespace(shutdown=lambda: None)

    monkeypatch.setattr(module, "_start", start)
    monkeypatch.setattr(module.Cluster, "_reserve", lambda *_: None)
    monkeypatch.setattr("os.environ", dict(os.environ))
    return found


def test_trainers_divide_the_cores_of_this_process_and_not_those_of_its_machine(started, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    monkeypatch.setattr(module, "cores_here", lambda: 6)
    ray = LocalCluster(DistributedConfig(engine="ray", trainers=2), on_gpu=False)
    try:
        assert ray.cores == 3
        assert started == [(6, 0)]
    finally:
        ray.close()


# Starts Ray, and prints who may do what with its folder, and with what lies above and below.
MODES = """
import json
from rlft.config import DistributedConfig
from rlft.training.distributed.cluster import LocalCluster
cluster = LocalCluster(DistributedConfig(engine="ray", trainers=1), False)
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


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Address, head and raylets of a cluster, and `token`, the file of its token."""
    need_ray()
    token = tmp_path_factory.mktemp("cluster") / "token"
    token.write_text(secrets.token_hex(32))
    with running(token) as found:
        yield found


@pytest.fixture
def first(tmp_path) -> PolicyFolder:
    return save_policy(make_policy(), tmp_path / "first")


def settings(address: str, trainers: int) -> DistributedConfig:
    return DistributedConfig(engine="ray", trainers=trainers, address=address, timeout_seconds=120.0)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_auto_is_the_ray_that_runs_here_it_trains_and_a_dead_machine_or_head_is_named(
    cluster, first, tmp_path, monkeypatch
):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "wrong")
    wrong = find_problem(settings(cluster["address"], 2), False, tmp_path)
    assert wrong is not None
    assert "RAY_AUTH_TOKEN" in wrong.fix
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(cluster["token"]))
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # as where that Ray was started: it is on loopback
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (tmp_path / "ray").mkdir()
    # What `ray start --head` leaves there; of a Ray that runs alone the processes are enough.
    (tmp_path / "ray" / "ray_current_cluster").write_text(cluster["address"])
    few = find_problem(settings("auto", 3), False, tmp_path)
    assert few is not None
    assert "Ray has no room for them: free are 2 cores" in few.what
    before = listening(psutil.Process())
    trainers = start_trainers(settings("auto", 2), tmp_path)
    trainers.train(job(first, tmp_path / "two"))
    assert PolicyFolder(tmp_path / "two").metadata.round == 1
    # The director has a port for Ray, and each trainer one of Ray's and one of gloo's.
    assert {address for address, _ in listening(psutil.Process()) - before} == {"127.0.0.1"}
    for each in trainer_processes(psutil.process_iter()):
        assert {address for address, _ in listening(each)} == {"127.0.0.1"}
    os.kill(cluster["raylets"][1], signal.SIGKILL)
    named = r"trainer [12] of 2 \(process \d+ on 127.0.0.1\) has died"
    with pytest.raises(DistributedError, match=named) as caught:
        trainers.train(job(first, tmp_path / "lost"))
    assert "`rlft resume`" in caught.value.fix
    one = start_trainers(settings(cluster["address"], 1), tmp_path)
    one.train(job(first, tmp_path / "one"))
    os.kill(cluster["head"], signal.SIGKILL)
    with pytest.raises(DistributedError, match="has died") as caught:
        train_often(one, first, tmp_path)
    assert "`rlft resume`" in caught.value.fix


def listening(process: psutil.Process) -> set[tuple[str, int]]:
    """Address and port of all at which a process, or one that it has started, listens."""
    links = [link for each in (process, *process.children(recursive=True)) for link in each.net_connections("inet")]
    return {(link.laddr.ip.removeprefix("::ffff:"), link.laddr.port) for link in links if link.status == "LISTEN"}
