"""Two real trainers in Ray: what they make, where they listen, and what is said when one dies or hangs."""

from __future__ import annotations

import dataclasses
import importlib
import os
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from rlft.config import DistributedConfig
from rlft.environments.contract.faults import described
from rlft.errors import DamagedError, DistributedError
from rlft.models import PolicyFolder, load_policy, save_policy
from rlft.models.flops import ENCODED
from rlft.training.distributed.director import Trainers
from rlft.training.job import Job
from rlft.training.trainer import Round, prepare_optimizer, train_round
from tests.factories import make_policy, make_scored, make_training
from tests.needs import need_ray
from tests.rlft.training.distributed.processes import trainer_processes

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]
SETTINGS = make_training(max_kl=1e9, updates_per_round=2)
TOTALS: dict[str, Sequence[float | None]] = {
    "t0": [1.0, 0.0, 0.5],
    "t1": [0.0, 1.0],
    "t2": [1.0, 1.0],
    "t3": [0.0, 0.5, 1.0, 0.25],
}


def start_trainers(settings: DistributedConfig, folder: Path) -> Trainers:
    return Trainers(settings, False, folder)


@pytest.fixture(scope="module")
def trainers(tmp_path_factory):
    need_ray()
    importlib.import_module("ray")  # as vLLM does before, where it samples in this process
    made = start_trainers(
        DistributedConfig(engine="ray", trainers=2, timeout_seconds=60.0), tmp_path_factory.mktemp("shared")
    )
    yield made
    made.close()


@pytest.fixture
def first(tmp_path) -> PolicyFolder:
    return save_policy(make_policy(), tmp_path / "first")


def job(policy: PolicyFolder, target: Path, round: int = 0) -> Job:
    rollouts, rewards = make_scored(TOTALS)
    return Job(
        policy, None, rollouts, rewards, SETTINGS, Round(number=round, temperature=1.0, max_completion_length=4), target
    )


def by_one(folder: PolicyFolder, target: Path, round: int = 0):
    rollouts, rewards = make_scored(TOTALS)
    policy = load_policy(folder, torch.device("cpu"))
    prepare_optimizer(policy, SETTINGS, folder.load_optimizer)
    given = Round(number=round, temperature=1.0, max_completion_length=4)
    return train_round(policy, rollouts, rewards, SETTINGS, given), save_policy(policy, target)


def same_weights(one: PolicyFolder, other: PolicyFolder) -> bool:
    models = [load_policy(folder, torch.device("cpu")).model.state_dict() for folder in (one, other)]
    return all(torch.allclose(models[0][name], models[1][name], atol=1e-5) for name in models[0])


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def test_rounds_are_those_of_one_process(trainers, first, tmp_path):
    before, handlers = dict(os.environ), [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    heard = []
    report = trainers.train(job(first, tmp_path / "two"), lambda done, total, what, **_: heard.append((done, total)))
    assert dict(os.environ) == before  # the token is for Ray alone, and not for what is started later
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers
    expected, folder = by_one(first, tmp_path / "one")
    assert report.fates == expected.fates
    assert report.updates == expected.updates == 2
    # KL after an update and entropy are means over the same tokens, whoever read them
    read = (each.metrics.pop(ENCODED) for each in (report, expected))
    assert next(read) >= next(read)  # what the groups of two trainers have in common, both encode
    assert report.metrics == pytest.approx(expected.metrics, rel=1e-4, abs=1e-6)
    two = PolicyFolder(tmp_path / "two")
    assert two.metadata.stage == "grpo"
    assert two.metadata.parent == first.metadata.content_hash
    assert (two.metadata.round, two.metadata.update) == (1, 2)
    assert same_weights(two, folder)
    # The next round goes on with what the trainers have in memory; from the folder it is the same, byte for byte.
    warm = trainers.train(job(two, tmp_path / "warm", 1))
    trainers.close()
    cold = trainers.train(job(two, tmp_path / "cold", 1))
    assert cold.metrics == warm.metrics
    hashes = [PolicyFolder(tmp_path / name).metadata.content_hash for name in ("warm", "cold")]
    assert hashes[0] == hashes[1]
    assert all(total is None or done <= total for done, total in heard)


def test_everything_listens_on_loopback_alone(trainers, first, tmp_path):
    trainers.train(job(first, tmp_path / "made"))
    found = [link.laddr.ip for each in children() for link in each.net_connections("inet") if link.status == "LISTEN"]
    assert found
    assert {address.removeprefix("::ffff:") for address in found} == {"127.0.0.1"}


def test_a_director_that_is_asked_to_end_ends_all_and_writes_nothing(trainers, first, tmp_path, capfd):
    """As an interrupted run asks it: by SIGTERM, for which Ray has a handler that writes a trace."""
    trainers.train(job(first, tmp_path / "made"))
    started = children()
    [director] = [each for each in started if each.pid == trainers._process._process.pid]
    made = list(Path("/tmp").glob(f"rlft-ray-*-{director.pid}-*"))
    assert len(made) == 1
    director.terminate()
    psutil.wait_procs(started, timeout=60)
    assert not [each for each in started if each.is_running() and each.name() in ("raylet", "gcs_server")]
    assert not made[0].exists()
    trainers.close()
    assert capfd.readouterr().err == ""


def test_what_a_trainer_raises_is_raised_here(trainers, first, tmp_path):
    shutil.copytree(first.path, tmp_path / "damaged")
    weights = tmp_path / "damaged" / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    with pytest.raises(DamagedError, match="sha256"):
        trainers.train(job(PolicyFolder(tmp_path / "damaged"), tmp_path / "made"))


@pytest.mark.parametrize(("number", "said"), [(signal.SIGKILL, "has died"), (signal.SIGSTOP, "has not answered for")])
def test_a_dead_or_hanging_trainer_is_named_and_the_round_can_be_done_again(request, first, tmp_path, number, said):
    request.getfixturevalue("trainers").close()  # a process has one cluster
    limit = 60.0 if number == signal.SIGKILL else 10.0
    trainers = start_trainers(DistributedConfig(engine="ray", trainers=2, timeout_seconds=limit), tmp_path)
    try:
        trainers.train(job(first, tmp_path / "made"))
        second = trainer_processes(children())[1].pid
        os.kill(second, number)
        started = time.monotonic()
        with pytest.raises(DistributedError) as caught:
            trainers.train(job(first, tmp_path / "again"))
        assert f"of 2 (process {second}) {said}" in caught.value.what
        assert "`rlft resume`" in caught.value.fix
        assert time.monotonic() - started < limit + 60
        if number == signal.SIGKILL:
            trainers.train(job(first, tmp_path / "anew"))
            assert same_weights(PolicyFolder(tmp_path / "made"), PolicyFolder(tmp_path / "anew"))
    finally:
        trainers.close()
    assert not [each for each in children() if "ray" in each.name().lower() or "raylet" in " ".join(each.cmdline())]
    assert np.all([not Path(f"/proc/{second}").exists() or psutil.Process(second).status() == "zombie"])


LOSS = """
import time
from typing import ClassVar

from rlft.training.losses import Divisor, Loss


class Mine(Loss):
    '''Waits, or fails.'''

    divisor: ClassVar[Divisor] = "tokens"

    def objective(self, ratio, advantages, logprobs):
        {act}
        return ratio * advantages
"""


def with_loss(first: PolicyFolder, folder: Path, act: str) -> Job:
    (folder / "my_loss.py").write_text(LOSS.format(act=act))
    settings = make_training(max_kl=1e9, loss_type=f"{folder / 'my_loss.py'}:Mine")
    return dataclasses.replace(job(first, folder / "made"), training=settings)


def test_trainers_of_which_none_gets_on_are_found_and_an_error_of_a_loss_says_where_it_was(request, first, tmp_path):
    request.getfixturevalue("trainers").close()
    trainers = start_trainers(DistributedConfig(engine="ray", trainers=2, timeout_seconds=15.0), tmp_path)
    try:
        with pytest.raises(ZeroDivisionError, match="division by zero") as failed:
            trainers.train(with_loss(first, tmp_path, "1 / 0"))
        (note,) = failed.value.__notes__
        assert f'File "{tmp_path / "my_loss.py"}", line 14, in objective' in note
        assert described(failed.value).endswith("my_loss.py:14")
        assert "\x1b" not in note
        with pytest.raises(DistributedError, match="no trainer has got on for 15 s") as caught:
            trainers.train(with_loss(first, tmp_path, "time.sleep(600)"))
        assert "raise distributed.timeout_seconds" in caught.value.fix
    finally:
        trainers.close()
    assert not [each for each in children() if "raylet" in " ".join(each.cmdline())]


def train_often(trainers: Trainers, first: PolicyFolder, folder: Path) -> None:
    """Train until something is wrong, or for very long: what Ray has lost it may notice only after some seconds."""
    for number in range(1000):
        trainers.train(job(first, folder / f"again{number}"))


@pytest.mark.parametrize(
    ("dies", "said"),
    [
        ("gcs_server", "has died"),
        ("raylet", "has died"),  # Ray ends the process that directs the trainers, too, before or after it hears of that
    ],
)
def test_a_dead_program_of_ray_is_named_and_nothing_is_left(request, first, tmp_path, dies, said):
    request.getfixturevalue("trainers").close()
    trainers = start_trainers(DistributedConfig(engine="ray", trainers=2, timeout_seconds=60.0), tmp_path)
    try:
        trainers.train(job(first, tmp_path / "made"))
        [program] = [each for each in children() if each.name() == dies]
        program.kill()
        with pytest.raises(DistributedError, match=said) as caught:
            train_often(trainers, first, tmp_path)
        assert "`rlft resume`" in caught.value.fix
    finally:
        trainers.close()
    assert not [each for each in children() if "raylet" in " ".join(each.cmdline())]
