"""The section `distributed`: what is not built is refused."""

import pytest

from rlft.config import DistributedConfig
from rlft.config.file import load_config
from rlft.errors import ConfigError
from rlft.training.distributed.demand import Demand, gpus_used
from tests.e2e.conftest import TINY


def test_it_is_off_unless_it_is_given():
    assert load_config(TINY, []).distributed is None
    assert load_config(TINY, ["distributed={engine: ray}"]).distributed == DistributedConfig(engine="ray", trainers=1)
    given = load_config(TINY, ["distributed={engine: ray, trainers: 2}"]).distributed
    assert given is not None
    assert (given.trainers, given.address, given.timeout_seconds) == (2, None, 600.0)


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


ENGINES = ["rollout.engine=vllm_server", "rollout.server.engines=2"]


def test_engines_are_started_by_ray_in_place_of_addresses():
    given = load_config(TINY, [*ENGINES, "distributed={engine: ray}", "rollout.server.tensor_parallel_size=4"])
    assert (given.rollout.server.engines, given.rollout.server.addresses) == (2, [])
    wanted = Demand(DistributedConfig(engine="ray"), True, trainers=0, engines=2, gpus_each=4)
    assert Demand.of(given, on_gpu=True) == wanted
    assert wanted.gpus == 8
    three = load_config(TINY, ["distributed={engine: ray, trainers: 3}"])
    for on_gpu, gpus in ((True, 3), (False, 0)):
        wanted = Demand(DistributedConfig(engine="ray", trainers=3), on_gpu, trainers=3)
        assert Demand.of(three, on_gpu=on_gpu) == wanted
        assert wanted.gpus == gpus
    assert Demand.of(load_config(TINY, []), on_gpu=False) is None


@pytest.mark.parametrize(
    ("trainers", "engines", "on_gpu", "here", "used"),
    [
        (4, 0, True, 1, 4),  # of other machines, too; the run's own process shares the first trainer's
        (4, 0, True, 8, 8),  # all that it can see, as without `distributed`
        (0, 2, True, 1, 5),  # two engines with two each, and the GPU on which the run's own process trains
        (3, 2, True, 1, 7),
        (4, 0, False, 0, 0),
    ],
)
def test_the_gpus_that_a_run_has_in_a_cluster_count(trainers, engines, on_gpu, here, used):
    settings = DistributedConfig(engine="ray", trainers=max(trainers, 1), address="auto")
    assert gpus_used(Demand(settings, on_gpu, trainers, engines, gpus_each=2), here) == used
    assert gpus_used(None, here) == here


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (ENGINES, "add `distributed: {engine: ray}`"),
        ([*ENGINES, "rollout.server.engines=0"], "rollout.server.engines"),
        (["rollout.engine=vllm_server"], "server.engines are started for the run"),
    ],
)
def test_engines_that_cannot_be_started_are_refused(given, said):
    with pytest.raises(ConfigError, match=said):
        load_config(TINY, given)


@pytest.mark.parametrize("trainers", [1, 2])
def test_a_round_may_be_sampled_while_the_run_or_several_trainers_train(trainers):
    given = ["training.lag=1", f"distributed={{engine: ray, trainers: {trainers}}}"]
    assert load_config(TINY, given).training.lag == 1
