"""What keeps several processes from training is said before a run: no Ray, or fewer GPUs than trainers."""

import pytest

from rlft.config import DistributedConfig
from rlft.errors import DistributedError
from rlft.readiness import distributed

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
    distributed.check_gpus(None, device)
    if not wrong:
        distributed.check_gpus(FOUR, device)
        return
    with pytest.raises(DistributedError, match="4 trainers need a GPU each, and this machine has 3") as caught:
        distributed.check_gpus(FOUR, device)
    assert "set it to 3" in caught.value.fix
