"""A cluster that runs already: what is wrong with it is said, it trains, and losing any part of it costs a round."""

from __future__ import annotations

import os
import secrets
import signal
from types import SimpleNamespace

import psutil
import pytest

from rlft.config import DistributedConfig
from rlft.distributed import existing_cluster
from rlft.distributed.demand import Demand
from rlft.distributed.director_process import find_problem as find_problem_of
from rlft.errors import DistributedError
from rlft.models import PolicyFolder, save_policy
from tests.factories import make_policy
from tests.needs import need_ray
from tests.rlft.distributed.real_cluster import running
from tests.rlft.distributed.test_trainers import job, start_trainers, train_often


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


def demand(trainers: int, *, address: str = "auto") -> Demand:
    return Demand(settings(address, trainers), on_gpu=False, trainers=trainers)


@pytest.fixture
def ray(monkeypatch):
    """Ray that was imported: its `joined` are the addresses it was given, and it raises `failure`, if that is set."""
    made = SimpleNamespace(joined=[], failure=None, exceptions=SimpleNamespace(AuthenticationError=PermissionError))

    def init(address: str, **_: object) -> None:
        made.joined.append(address)
        if made.failure is not None:
            raise made.failure

    made.init = init
    monkeypatch.setattr(existing_cluster, "import_ray", lambda: made)
    monkeypatch.setattr(existing_cluster, "_knock", lambda address: None)
    return made


@pytest.mark.parametrize("named", ["10.0.0.7:6379", "ray://127.0.0.1:10001", "local"])
def test_a_variable_that_ray_takes_before_auto_is_refused_and_not_another_address(ray, monkeypatch, named):
    monkeypatch.setenv("RAY_ADDRESS", named)
    with pytest.raises(DistributedError, match="the one that RAY_ADDRESS names instead") as caught:
        existing_cluster._join("auto")
    assert ray.joined == []  # whoever is there would get the token
    assert "unset RAY_ADDRESS, or write HOST:PORT" in caught.value.fix
    assert existing_cluster._join("10.0.0.8:6379") is ray  # which Ray takes as it is


@pytest.mark.parametrize("named", ["", "auto", "127.0.0.1:6379"])  # the last one is KubeRay's, in the head's pod
def test_a_variable_that_names_no_other_cluster_is_no_fault(ray, monkeypatch, named):
    monkeypatch.setenv("RAY_ADDRESS", named)
    assert existing_cluster._join("auto") is ray
    assert ray.joined == ["auto"]


@pytest.mark.slow
def test_a_variable_that_ray_takes_before_auto_is_refused_before_the_run(monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_ADDRESS", "192.0.2.1:9")
    found = find_problem_of(demand(2), tmp_path)
    assert found is not None
    assert "RAY_ADDRESS" in found.what


def test_why_a_cluster_cannot_be_joined_is_a_sentence_without_a_trace(ray):
    trace = 'Traceback (most recent call last):\n  File "gcs.py", line 3, in connect\nRpcError: the versions differ'
    ray.failure = RuntimeError(trace)
    with pytest.raises(DistributedError) as caught:
        existing_cluster._join("10.0.0.7:6379")
    assert caught.value.what == "the cluster at 10.0.0.7:6379 cannot be joined: RpcError: the versions differ"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_auto_is_the_ray_that_runs_here_it_trains_and_a_dead_machine_or_head_is_named(
    cluster, first, tmp_path, monkeypatch
):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "wrong")
    wrong = find_problem_of(demand(2, address=cluster["address"]), tmp_path)
    assert wrong is not None
    assert "does not take this process's token" in wrong.what
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(cluster["token"]))
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # as where that Ray was started: it is on loopback
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (tmp_path / "ray").mkdir()
    # What `ray start --head` leaves there; of a Ray that runs alone the processes are enough.
    (tmp_path / "ray" / "ray_current_cluster").write_text(cluster["address"])
    few = find_problem_of(demand(3), tmp_path)
    assert few is not None
    assert "3 trainers need a free core each, and the cluster has 2" in few.what
    before = listening(psutil.Process())
    trainers = start_trainers(settings("auto", 2), tmp_path)
    trainers.train(job(first, tmp_path / "two"))
    assert PolicyFolder(tmp_path / "two").metadata.round == 1
    # The director has a port for Ray, and each trainer one of Ray's and one of gloo's.
    assert {address for address, _ in listening(psutil.Process()) - before} == {"127.0.0.1"}
    for pid in trainers.pids:
        assert {address for address, _ in listening(psutil.Process(pid))} == {"127.0.0.1"}
    os.kill(cluster["raylets"][1], signal.SIGKILL)
    named = r"trainer [12] of 2 \(process \d+ on 127.0.0.1\) has died"
    with pytest.raises(DistributedError, match=named) as caught:
        trainers.train(job(first, tmp_path / "lost"))
    assert "`rlft resume`" in caught.value.fix
    one = start_trainers(settings(cluster["address"], 1), tmp_path)
    one.train(job(first, tmp_path / "one"))
    os.kill(cluster["head"], signal.SIGKILL)
    with pytest.raises(DistributedError, match=r"the head of Ray does not answer any more|has died") as caught:
        train_often(one, first, tmp_path)
    assert "`rlft resume`" in caught.value.fix


def listening(process: psutil.Process) -> set[tuple[str, int]]:
    """Address and port of all at which a process, or one that it has started, listens."""
    links = [link for each in (process, *process.children(recursive=True)) for link in each.net_connections("inet")]
    return {(link.laddr.ip.removeprefix("::ffff:"), link.laddr.port) for link in links if link.status == "LISTEN"}
