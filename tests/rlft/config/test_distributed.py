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


@pytest.mark.parametrize("address", ["auto", "ray://host:10001"])
def test_a_cluster_that_runs_already_is_refused(address):
    with pytest.raises(ConfigError, match="not supported yet") as caught:
        load_config(TINY, [f"distributed={{engine: ray, trainers: 2, address: '{address}'}}"])
    assert "remove `address`" in str(caught.value)


@pytest.mark.parametrize("wrong", ["{engine: mpi, trainers: 2}", "{engine: ray, trainers: 0}", "{engine: ray}"])
def test_an_engine_or_a_number_that_cannot_be_is_refused(wrong):
    with pytest.raises(ConfigError):
        load_config(TINY, [f"distributed={wrong}"])
