"""A twin is trained to the bytes that the policy itself would have come to, which stays as it was."""

import pytest
import torch

from rlft.models.live import twin_of
from rlft.models.optimizer import Optimizer
from tests.factories import make_lora_policy, make_policy, save_base


def made(kind, base):
    policy = make_lora_policy(base) if kind == "adapter" else make_policy(dtype=kind)
    policy.optimizer = Optimizer(policy.trainable(), betas=(0.9, 0.99), weight_decay=0.1)
    return policy


def take_steps(policy, count):
    """Steps whose gradients are the same for the same weights, and others for others."""
    for _ in range(count):
        with policy.optimizer.accumulating():
            policy.model(input_ids=torch.arange(4, 12)[None]).logits.float().square().mean().backward()
        policy.optimizer.step(1e-2)
        policy.note_change(update=policy.metadata.update + 1)


def weights(policy):
    return {name: value.clone() for name, value in policy.model.state_dict().items()}


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "adapter"])
def test_it_goes_on_where_the_policy_was_and_leaves_that_alone(kind, tmp_path):
    base = save_base(tmp_path / "base")
    policy, other = made(kind, base), made(kind, base)
    take_steps(policy, 2)
    take_steps(other, 2)
    before = weights(policy)
    twin = twin_of(policy)
    assert (twin.identity, twin.metadata, policy.optimizer) == (other.identity, other.metadata, None)
    take_steps(twin, 2)
    take_steps(other, 2)
    assert equal(weights(twin), weights(other))
    assert equal(twin.optimizer.tensors(), other.optimizer.tensors())  # moments, and masters of half precision
    assert equal(weights(policy), before)
    assert not equal(before, weights(twin))


def test_weights_under_an_adapter_are_in_memory_once(tmp_path):
    policy = made("adapter", save_base(tmp_path / "base"))
    twin = twin_of(policy)
    pairs = zip(policy.model.named_parameters(), twin.model.named_parameters(), strict=True)
    trained = {name: one.data_ptr() != other.data_ptr() for (name, one), (_, other) in pairs}
    assert set(trained) - {name for name, apart in trained.items() if apart}  # there are such weights
    assert {name for name, apart in trained.items() if apart} == set(policy.trainable())


def test_a_policy_that_was_never_trained_has_no_optimizer_to_give():
    policy = make_policy()
    assert twin_of(policy).optimizer is None
