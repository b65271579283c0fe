"""The section `distributed`: what is not built is refused."""

import pytest

from rlft.config import DistributedConfig
from rlft.config.file import load_config
from rlft.errors import ConfigError
from tests.e2e.conftest import TINY


def test_it_is_off_unless_it_is_given():
    off = load_config(TINY, [])
    assert (off.distributed, off.trainers) == (None, 1)
    on = load_config(TINY, ["distributed={engine: ray, trainers: 2}"])
    assert on.distributed == DistributedConfig(engine="ray", trainers=2, address=None, timeout_seconds=600.0)
    assert on.trainers == 2


@pytest.mark.parametrize(
    "address",
    [
        "auto",
        "10.0.0.7:6379",
        "head.example:6379",
        "[::1]:6379",
    ],
)
def test_a_cluster_that_runs_already_is_named_by_its_head(address):
    given = load_config(TINY, [f"distributed={{engine: ray, trainers: 2, address: '{address}'}}"]).distributed
    assert given is not None
    assert given.address == address


@pytest.mark.parametrize("address", ["ray://host:10001", "host", ":6379", "host:port", "host:700000", "host/path:6379"])
def test_an_address_that_cannot_be_joined_is_refused(address):
    with pytest.raises(ConfigError, match=r"distributed\.address"):
        load_config(TINY, [f"distributed={{engine: ray, trainers: 2, address: '{address}'}}"])


@pytest.mark.parametrize("wrong", ["{engine: mpi, trainers: 2}", "{engine: ray, trainers: 0}"])
def test_an_engine_or_a_number_that_cannot_be_is_refused(wrong):
    with pytest.raises(ConfigError):
        load_config(TINY, [f"distributed={wrong}"])


@pytest.mark.parametrize("trainers", [1, 2])
def test_a_round_may_be_sampled_while_the_run_or_several_trainers_train(trainers):
    given = ["training.lag=1", f"distributed={{engine: ray, trainers: {trainers}}}"]
    assert load_config(TINY, given).training.lag == 1
