"""An optimizer for a policy, its learning rate, and training that goes on from an artifact as if it had not stopped."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlft.config import LoraSettings, PolicyConfig
from rlft.models import PolicyFolder, load_policy, save_policy
from rlft.models.origin import create_policy
from rlft.training.trainer import Round, learning_rate, prepare_optimizer, train_round
from tests.factories import make_lora_policy, make_policy, make_scored, make_training, save_base

CPU = torch.device("cpu")
ROLLOUTS, REWARDS = make_scored({"a": [1.0, 0.0, 0.5], "b": [0.0, 1.0]})


def test_the_rate_warms_up_and_stays():
    # 4 updates of warm-up to 0.8: a quarter of it after none, all of it after three
    settings = make_training(learning_rate=0.8, warmup_updates=4)
    assert [learning_rate(settings, update) for update in range(6)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8, 0.8])
    assert learning_rate(make_training(learning_rate=0.8), 0) == 0.8


# 2 updates of warm-up, then 4: of 3 rounds with 2 updates and a pass over each
SCHEDULES = {
    "constant": [0.4, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8],
    "linear": [0.4, 0.8, 0.8, 0.6, 0.4, 0.2, 0.0, 0.0],
    "cosine": [0.4, 0.8, 0.8, 0.4 + 0.4 * 0.5**0.5, 0.4, 0.4 - 0.4 * 0.5**0.5, 0.0, 0.0],  # cos 45 degrees is 0.5**0.5
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_rate_goes_on_by_its_schedule(name):
    length = {"rounds": 3, "updates_per_round": 2, "num_iterations": 1}
    settings = make_training(learning_rate=0.8, warmup_updates=2, lr_scheduler_type=name, **length)
    assert [learning_rate(settings, update) for update in range(8)] == pytest.approx(SCHEDULES[name])


@given(st.integers(0, 50), st.integers(0, 60))
def test_the_rate_never_falls(warmup, update):
    settings = make_training(learning_rate=0.8, warmup_updates=warmup)
    now, after = learning_rate(settings, update), learning_rate(settings, update + 1)
    assert 0 < now <= after <= 0.8
    assert update < warmup - 1 or now == 0.8


def test_settings_arrive():
    policy = make_policy()
    prepare_optimizer(policy, make_training(adam_beta1=0.7, adam_beta2=0.8, weight_decay=0.3), None)
    (group,) = policy.optimizer.adamw.param_groups
    assert (group["betas"], group["weight_decay"]) == ((0.7, 0.8), 0.3)
    assert policy.optimizer.parameters.keys() == policy.trainable().keys()
    assert len(group["params"]) == len(policy.trainable())


def test_an_optimizer_that_is_there_stays():
    policy = make_policy()
    prepare_optimizer(policy, make_training(), None)
    first = policy.optimizer
    train(policy)
    prepare_optimizer(policy, make_training(), None)
    assert policy.optimizer is first
    assert policy.metadata.update == 1


def test_without_state_updates_are_counted_anew(tmp_path):
    policy = make_policy()
    policy.metadata = dataclasses.replace(policy.metadata, update=9)
    saved = save_policy(policy, tmp_path / "warm-started")
    again = load_policy(saved, CPU)
    assert again.metadata.update == 9
    prepare_optimizer(again, make_training(), saved.load_optimizer)
    assert again.metadata.update == 0


def test_only_the_adapter_is_trained(tmp_path):
    policy = make_lora_policy(save_base(tmp_path / "base"))
    prepare_optimizer(policy, make_training(), None)
    assert policy.optimizer.parameters
    assert all("lora" in name for name in policy.optimizer.parameters)


def train(policy, folder=None, **settings):
    training = make_training(max_kl=1e9, **settings)  # log-probabilities of these rollouts are made up
    prepare_optimizer(policy, training, folder and folder.load_optimizer)
    report = train_round(policy, ROLLOUTS, REWARDS, training, Round(number=0, temperature=1.0, max_completion_length=4))
    assert report.stopped is None
    return report


def files(folder):
    """All bytes of the weights and of the optimizer's state."""
    found = {file.name: file.read_bytes() for file in sorted(folder.rglob("*.safetensors"))}
    assert len(found) == 2
    return found


def start(base, dtype, lora):
    settings = PolicyConfig(model=str(base), dtype=dtype, device="cpu", lora=LoraSettings(rank=4) if lora else None)
    return create_policy(settings, seed=0)


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.slow
def test_training_goes_on_from_its_artifact_byte_for_byte(dtype, lora, tmp_path):
    base = save_base(tmp_path / "base", sharpness=2.0)
    settings = {"learning_rate": 1e-3, "weight_decay": 0.1, "warmup_updates": 3, "num_iterations": 2}
    never_stopped = start(base, dtype, lora)
    for _ in range(3):
        train(never_stopped, **settings)
    stopping, folder = start(base, dtype, lora), None
    for number in range(3):
        train(stopping, folder, **settings)
        folder = save_policy(stopping, tmp_path / str(number))
        stopping = load_policy(PolicyFolder(folder.path), CPU)
    whole = save_policy(never_stopped, tmp_path / "whole")
    assert files(folder.path) == files(whole.path)
    assert folder.metadata.update == whole.metadata.update == 6
    assert folder.metadata.content_hash == whole.metadata.content_hash
    assert files(folder.path) != files(tmp_path / "1")


@pytest.mark.slow
def test_bfloat16_weights_train_at_a_rate_that_they_cannot_hold(tmp_path):
    # Weights of this size are some 2^-13 = 1e-4 apart; a step of 1e-6 moves hardly any of them, but it moves all
    # masters, and 40 of them move weights as well.
    base = save_base(tmp_path / "base", sharpness=2.0)
    policy = start(base, "bfloat16", lora=False)
    before = {name: p.detach().clone() for name, p in policy.trainable().items()}

    def changed():
        return sum(int((p != before[name]).sum()) for name, p in policy.trainable().items())

    train(policy, learning_rate=1e-6)
    total = sum(p.numel() for p in before.values())
    first = changed()
    moved = sum(int((policy.optimizer.masters[name] != p).sum()) for name, p in before.items())
    assert moved > 0.9 * total
    for _ in range(39):
        train(policy, learning_rate=1e-6)
    assert first < 0.05 * total
    assert changed() > 5 * first
    assert all(p.dtype == torch.bfloat16 for p in policy.trainable().values())
    assert {m.dtype for m in policy.optimizer.masters.values()} == {torch.float32}
