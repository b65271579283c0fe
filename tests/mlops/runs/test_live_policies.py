"""Policies in memory: the twin that is trained while another samples, and what is loaded before."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from mlops.runs.runtime import Runtime
from rlft.harness.rollout import SamplingSettings
from rlft.models import save_policy
from rlft.progress import silent
from tests.factories import make_lora_policy, make_policy, save_base


def test_while_a_policy_samples_its_twin_is_trained(tmp_path):
    runtime, policy = Runtime(), make_policy()
    sampling = SamplingSettings(temperature=0.0, max_completion_length=4, batch_size=8, seed=0)
    folder = save_policy(policy, tmp_path / "policy")
    runtime.policies.keep(policy)
    with ThreadPoolExecutor() as pool, runtime.policies.beside(silent) as beside:
        trained = pool.submit(runtime.policies.borrow, folder, "cpu")
        with pytest.raises(TimeoutError):
            trained.result(0.2)  # it waits until whoever samples has the policy
        player = runtime.player(folder, sampling, "cpu")
        assert beside.may_train.is_set()
        twin = trained.result(10)
        assert player.policy is policy
        assert twin is not policy
        assert twin.metadata == policy.metadata
        next(iter(twin.model.parameters())).data.add_(1.0)  # as training does
        again = runtime.policies.of(folder, "cpu")  # from the folder: the live one is not that of a step any more
        assert again is not policy
        assert torch.equal(next(iter(policy.model.parameters())), next(iter(again.model.parameters())))
    assert runtime.policies.borrow(folder, "cpu") is again  # as ever, when both are over
    runtime.close()


def test_beside_trainers_elsewhere_no_second_copy_is_held(tmp_path):
    runtime, policy = Runtime(), make_policy()
    sampling = SamplingSettings(temperature=0.0, max_completion_length=4, batch_size=8, seed=0)
    folder = save_policy(policy, tmp_path / "policy")
    runtime.policies.keep(policy)
    with runtime.policies.beside(silent, here=False) as beside:
        assert runtime.player(folder, sampling, "cpu").policy is policy
        assert beside.twin is None
        assert runtime.policies.of(folder, "cpu") is policy  # nobody here changes it
    runtime.close()


@pytest.mark.parametrize(
    ("kind", "stage", "loads"), [("full", "base", 1), ("adapter", "warm_start", 1), ("adapter", "base", 0)]
)
def test_the_reference_is_loaded_before_anything_is_sampled(tmp_path, kind, stage, loads):
    runtime = Runtime()
    policy = make_policy() if kind == "full" else make_lora_policy(save_base(tmp_path / "base"))
    start = save_policy(policy, tmp_path / "start", stage=stage)
    runtime.policies.keep(policy)
    sampling = SamplingSettings(temperature=0.0, max_completion_length=4, batch_size=8, seed=0)
    held, fetched = [], []
    artifact = SimpleNamespace(content_hash=start.metadata.content_hash, load=lambda: fetched.append(0) or start)
    with runtime.policies.beside(silent, artifact) as beside:
        beside.may_train = SimpleNamespace(set=lambda: held.append(list(runtime.policies._policies.values())))
        player = runtime.player(start, sampling, "cpu")  # the first round's policy is the reference, too
    assert len(held[0]) == loads
    assert all(reference not in (player.policy, beside.twin) for reference in held[0])
    if loads:  # the next round's policy is another one, and the reference is not fetched from the store again
        next(each for each in beside.twin.model.parameters() if each.requires_grad).data.add_(1.0)
        beside.twin.note_change(update=1)
        after = save_policy(beside.twin, tmp_path / "after", stage="grpo", round=1)
        runtime.policies.keep(beside.twin)
        with runtime.policies.beside(silent, artifact):
            assert runtime.player(after, sampling, "cpu").policy is beside.twin
        assert runtime.policies.of(start, "cpu") is held[0][0]
        assert len(fetched) == 1
    runtime.close()


def test_training_that_begins_when_sampling_has_failed_gets_the_policy(tmp_path):
    runtime, policy = Runtime(), make_policy()
    folder = save_policy(policy, tmp_path / "policy")
    runtime.policies.keep(policy)
    waits = threading.Event()

    class Ended(threading.Event):
        """Waits until the context is closed, after which the runtime knows nothing of it."""

        def wait(self, timeout=None):
            waits.set()
            super().wait(timeout)
            while runtime.policies._beside is not None:
                time.sleep(0.01)
            return True

    with ThreadPoolExecutor() as pool:
        with runtime.policies.beside(silent) as beside:
            beside.may_train = Ended()
            trained = pool.submit(runtime.policies.borrow, folder, "cpu")
            waits.wait(10)
        assert trained.result(10) is policy
    runtime.close()


def test_training_goes_on_with_the_policy_itself_where_nothing_is_sampled(tmp_path):
    runtime, policy = Runtime(), make_policy()
    folder = save_policy(policy, tmp_path / "policy")
    runtime.policies.keep(policy)
    with runtime.policies.beside(silent) as beside:
        beside.may_train.set()  # the attempts were in the cache
        assert runtime.policies.borrow(folder, "cpu") is policy
    runtime.close()
