"""What steps share in one process: the live policy, the environment, checkpoints and scratch folders."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from mlops.runtime.runtime import Lent, Runtime
from rlft.config import DistributedConfig, EngineSettings, EnvironmentConfig
from rlft.distributed.demand import Demand
from rlft.engines.chat_endpoint import AskedModel
from rlft.policy import load_policy, save_policy
from rlft.progress import silent
from rlft.rollout import AskedPlayer, SamplingSettings
from rlft.temporary import folder_prefix
from tests.factories import make_lora_policy, make_policy, save_base
from tests.left_behind import left_behind
from tests.rlft.sft.test_training import sft


def test_the_runtime_gives_the_live_policy_or_loads_the_same_weights(tmp_path):
    runtime, policy = Runtime(), make_policy()
    folder = save_policy(policy, tmp_path / "policy")
    runtime.policies.keep(policy)
    assert runtime.policies.of(folder, "cpu") is policy
    assert runtime.policies.borrow(folder, "cpu") is policy
    cold = runtime.policies.of(folder, "cpu")  # borrowed: it is not here until it is kept again
    assert cold is not policy
    for name, weight in policy.model.state_dict().items():
        assert np.array_equal(weight.numpy(), cold.model.state_dict()[name].numpy())
    runtime.close()


def test_what_attempts_tasks_is_the_live_policy_in_its_engine_or_the_model_behind_its_address(tmp_path):
    runtime, policy = Runtime(), make_policy()
    sampling = SamplingSettings(temperature=0.0, max_completion_length=4, batch_size=8, seed=0)
    folder = save_policy(policy, tmp_path / "policy")
    runtime.policies.keep(policy)
    player = runtime.player(folder, sampling, "cpu")
    assert player.policy is policy
    assert player.engine.policy_hash == policy.identity  # it has loaded it
    model = AskedModel("http://127.0.0.1:9/v1", "small")
    assert runtime.player(model, sampling, "cpu") == AskedPlayer(model)
    runtime.close()


def test_one_process_uses_ray_for_training_and_engines():
    ray = DistributedConfig(engine="ray", trainers=2, address="auto")
    settings = EngineSettings.model_validate({"engine": "vllm_server", "server": {"engines": 3}})
    runtime = Runtime()
    runtime.lent = Lent(demand=Demand(ray, on_gpu=False, trainers=2, engines=3))
    trainers, engine = runtime.on_ray.trainers(ray, "cpu"), runtime.engine(settings, 8, "cpu")
    assert engine is runtime.engine(settings, 8, "cpu")
    assert trainers is runtime.on_ray.trainers(ray, "cpu")
    assert trainers._director is engine._starter._director
    assert trainers._director.demand == runtime.lent.demand
    assert runtime.on_ray.trainers(ray.division(), "cpu")._director.demand.settings.address == "auto"
    assert engine._starter.folder == trainers.folder == runtime._scratch.parent  # which machines of a cluster see
    runtime.close()
    alone = Runtime()  # of a step in a process of its own, to which nothing is lent
    assert alone.engine(settings, 8, "cpu")._starter._director.demand.engines == 3
    alone.close()


def test_supervised_stages_keep_what_they_have_only_where_it_lasts(tmp_path):
    runtime, noted = Runtime(), []
    assert runtime.checkpoints("warm_start", "code") is None
    runtime.lent = Lent(checkpoints=tmp_path / "kept", note_training=lambda *told: noted.append(told))
    checkpoints = runtime.checkpoints("warm_start", "code")
    checkpoints._every, checkpoints._share = 0.0, 1e9
    start = load_policy(save_policy(make_policy(), tmp_path / "start"), torch.device("cpu"))
    sft(start, steps=2, checkpoints=checkpoints)
    assert [(stage, state.steps) for stage, state in noted] == [("warm_start", 2), ("warm_start", 2)]  # one object
    assert len(list((tmp_path / "kept").rglob("*.safetensors"))) == 1
    runtime.close()  # a run that fails
    assert len(list((tmp_path / "kept").rglob("*.safetensors"))) == 1
    runtime.forget_checkpoints()  # one whose result is stored
    assert list((tmp_path / "kept").iterdir()) == []


def test_the_environment_is_made_once():
    runtime = Runtime()
    settings = EnvironmentConfig(name="rlft.environments.stories:Stories")
    assert runtime.environment(settings) is runtime.environment(settings)
    runtime.close()


def test_scratch_of_a_killed_process_is_removed_and_that_of_a_living_one_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("RLFT_SCRATCH", str(tmp_path))
    left, living = left_behind("scratch", tmp_path), tmp_path / f"{folder_prefix('scratch')}y"
    living.mkdir()
    runtime = Runtime()
    assert not left.exists()
    assert living.exists()
    assert runtime.new_folder().is_relative_to(tmp_path)
    runtime.close()
    assert [folder.name for folder in tmp_path.iterdir()] == [living.name]


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


def test_reports_of_training_go_to_its_own_stage_while_another_is_sampled():
    runtime, inner, training = Runtime(), [], []
    runtime.lent = Lent(progress=lambda *told: inner.append(told))
    runtime.training_progress(1, 2, "rollouts")
    with runtime.policies.beside(lambda *told: training.append(told)):
        runtime.training_progress(2, 2, "rollouts")
    assert (inner, training) == ([(1, 2, "rollouts")], [(2, 2, "rollouts")])
    runtime.close()
