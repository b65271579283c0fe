"""The section `distributed`: what is not built is refused."""

import pytest

from rlft.config.file import load_config
from rlft.errors import ConfigError
from tests.e2e.conftest import TINY


def test_it_is_off_unless_it_is_given():
    assert load_config(TINY, []).distributed is None
    given = load_config(TINY, ["distributed={engine: ray, trainers: 2}"]).distributed
    assert given is not None
    assert (given.trainers, given.address, given.timeout_seconds) == (2, None, 600.0)


@pytest.mark.parametrize("address", ["auto", "10.0.0.7:6379", "head.example:6379", "[::1]:6379"])
def test_a_cluster_that_runs_already_is_named_by_its_head(address):
    given = load_config(TINY, [f"distributed={{engine: ray, trainers: 2, address: '{address}'}}"]).distributed
    assert given is not None
    assert given.address == address


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("ray://host:10001", "Ray's client is for programs outside of a cluster"),
        ("host", "neither `auto` nor HOST:PORT"),
        (":6379", "neither `auto` nor HOST:PORT"),
        ("host:port", "neither `auto` nor HOST:PORT"),
        ("host:70000", "neither `auto` nor HOST:PORT"),
        ("http://host:6379", "neither `auto` nor HOST:PORT"),
        ("user@host:6379", "neither `auto` nor HOST:PORT"),
    ],
)
def test_an_address_that_cannot_be_joined_is_refused(address, said):
    with pytest.raises(ConfigError, match=said):
        load_config(TINY, [f"distributed={{engine: ray, trainers: 2, address: '{address}'}}"])


@pytest.mark.parametrize("wrong", ["{engine: mpi, trainers: 2}", "{engine: ray, trainers: 0}", "{engine: ray}"])
def test_an_engine_or_a_number_that_cannot_be_is_refused(wrong):
    with pytest.raises(ConfigError):
        load_config(TINY, [f"distributed={wrong}"])
