"""What steps share in one process: the live policy, the environment and scratch folders."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

from mlops.runs.runtime import Lent, Runtime
from rlft.config import DistributedConfig, EnvironmentConfig
from rlft.engines.chat_endpoint import AskedModel
from rlft.files import folder_prefix
from rlft.harness.asked import AskedPlayer
from rlft.harness.rollout import SamplingSettings
from rlft.models import save_policy
from tests.factories import make_policy
from tests.left_behind import left_behind


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


def test_trainers_are_made_once_where_the_run_says_and_meet_beside_the_policies():
    ray = DistributedConfig(engine="ray", trainers=2, address="auto")
    runtime = Runtime()
    runtime.lent = Lent(distributed=ray)
    trainers = runtime.trainers(ray.division(), "cpu")
    assert trainers is runtime.trainers(ray.division(), "cpu")
    assert (trainers.settings, trainers.on_gpu) == (ray, False)
    assert trainers.folder == runtime._scratch.parent  # which machines of a cluster see
    runtime.close()
    alone = Runtime()  # of a step in a process of its own, to which nothing is lent
    assert alone.trainers(ray.division(), "cpu").folder == Path(tempfile.gettempdir())
    alone.close()


@pytest.mark.slow
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


def test_reports_of_training_go_to_its_own_stage_while_another_is_sampled():
    runtime, inner, training = Runtime(), [], []
    runtime.lent = Lent(progress=lambda *told: inner.append(told))
    runtime.training_progress(1, 2, "rollouts")
    with runtime.policies.beside(lambda *told: training.append(told)):
        runtime.training_progress(2, 2, "rollouts")
    assert (inner, training) == ([(1, 2, "rollouts")], [(2, 2, "rollouts")])
    runtime.close()
