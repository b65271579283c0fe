"""What keeps several processes from training is said before a run: no Ray, or fewer GPUs than trainers."""

from contextlib import nullcontext

import pytest

from rlft.config import DistributedConfig
from rlft.config.file import load_config
from rlft.errors import DistributedError
from rlft.readiness import distributed
from tests.e2e.conftest import TINY

FOUR = DistributedConfig(engine="ray", trainers=4)


@pytest.mark.parametrize(
    ("settings", "there", "wrong"), [(FOUR, False, True), (FOUR, True, False), (None, False, False)]
)
def test_ray_is_needed_where_it_is_to_train(monkeypatch, settings, there, wrong):
    monkeypatch.setattr(distributed, "is_installed", lambda: there)
    if not wrong:
        distributed.check_ray(settings)
        return
    with pytest.raises(DistributedError, match="Ray is not installed") as caught:
        distributed.check_ray(settings)
    assert "make setup-ray" in caught.value.fix


@pytest.mark.parametrize(
    ("gpus", "device", "wrong"),
    [(3, "cuda", True), (3, "auto", True), (4, "auto", False), (0, "auto", False), (3, "cpu", False)],
)
def test_each_trainer_has_a_gpu_of_its_own_where_they_have_any(monkeypatch, gpus, device, wrong):
    monkeypatch.setattr(distributed, "gpus_here", lambda: [1] * gpus)
    config = load_config(TINY, [f"policy.device={device}"])
    distributed.check_gpus(config)
    config = config.model_copy(update={"distributed": FOUR})
    if not wrong:
        distributed.check_gpus(config)
        return
    with pytest.raises(DistributedError, match="4 trainers need a GPU each, and this machine has 3") as caught:
        distributed.check_gpus(config)
    assert "set it to 3" in caught.value.fix


@pytest.mark.parametrize(
    ("cores", "gpus", "device", "address", "wrong"),
    [
        (3, 0, "auto", None, True),
        (4, 0, "auto", None, False),
        (3, 4, "auto", None, False),
        (3, 4, "cpu", None, True),
        (3, 0, "cpu", "auto", False),
    ],
)
def test_each_trainer_has_a_core_of_its_own_on_a_cpu(monkeypatch, cores, gpus, device, address, wrong):
    monkeypatch.setattr(distributed, "gpus_here", lambda: [1] * gpus)
    monkeypatch.setattr(distributed, "cores_here", lambda: cores)
    config = load_config(TINY, [f"policy.device={device}"])
    distributed.check_cores(config)
    settings = DistributedConfig(engine="ray", trainers=4, address=address)
    with (
        pytest.raises(DistributedError, match="4 trainers need a core each, and this machine has 3")
        if wrong
        else nullcontext()
    ):
        distributed.check_cores(config.model_copy(update={"distributed": settings}))


@pytest.mark.parametrize(
    ("gpus", "trainers", "device", "needed"),
    # two engines of two GPUs, and one for the run's own process or one for each trainer
    [(4, 1, "auto", 5), (5, 1, "auto", None), (7, 4, "cuda", 8), (8, 4, "cuda", None), (1, 1, "cpu", None)],
)
def test_engines_need_gpus_beside_those_of_training(monkeypatch, gpus, trainers, device, needed):
    monkeypatch.setattr(distributed, "gpus_here", lambda: [1] * gpus)
    server = ["rollout.engine=vllm_server", "rollout.server={engines: 2, tensor_parallel_size: 2}"]
    ray = f"distributed={{engine: ray, trainers: {trainers}}}"
    config = load_config(TINY, [*server, f"policy.device={device}", ray])
    if needed is None:
        distributed.check_gpus(config)
        return
    with pytest.raises(DistributedError, match=f"2 engines of 2 GPUs need {needed} GPUs, and this .* has {gpus}"):
        distributed.check_gpus(config)
