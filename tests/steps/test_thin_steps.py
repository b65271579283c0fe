"""Steps with fakes in place of the library: what they pass on, and what they keep."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
import torch

from mlops.runtime.runtime import Lent, Runtime
from rlft.config import EnvironmentConfig, TrainingConfig
from rlft.policy import PolicyFolder, load_policy, save_policy
from rlft.temporary import folder_prefix
from rlft.types import Rewards, Rollouts, TrainReport
from steps import train_grpo as module
from tests.factories import make_policy
from tests.left_behind import left_behind
from tests.rlft.sft.test_training import sft

STEPS = Path(module.__file__).parent


@pytest.mark.parametrize("file", sorted(p.name for p in STEPS.glob("*.py") if p.name != "__init__.py"))
def test_a_step_only_connects(file):
    tree = ast.parse((STEPS / file).read_text())
    loops = (ast.For, ast.While, ast.Lambda)
    assert [type(node) for node in ast.walk(tree) if isinstance(node, loops)] == []
    steps = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.decorator_list]
    assert [step.name for step in steps] == [file.removesuffix(".py")]
    assert steps[0].end_lineno - steps[0].lineno < 50


class FakeRuntime(Runtime):
    """Hands out one policy, and remembers what was kept."""

    def __init__(self, policy, tmp_path):
        super().__init__()
        self.live, self.kept, self.target = policy, [], tmp_path / "next"

    def borrow(self, folder, device):
        return self.live

    def keep(self, policy):
        self.kept.append(policy)

    def new_folder(self):
        return self.target


@pytest.mark.parametrize("stopped", [None, "loss nan"])
def test_a_round_that_is_undone_gives_back_the_policy_that_came_in(stopped, tmp_path, monkeypatch):
    runtime = FakeRuntime(make_policy(), tmp_path)
    folder = PolicyFolder(tmp_path / "before")
    report = TrainReport(round=3, metrics={"policy_loss": 0.5}, fates={}, updates=1, seconds=2.0, stopped=stopped)
    monkeypatch.setattr(module, "current_runtime", lambda: runtime)
    monkeypatch.setattr(module, "train_round", lambda *args, **kwargs: report)
    rollouts, rewards = Rollouts(rows=(), seconds=4.0), Rewards(rows=(), weights={}, seconds=0.25)
    policy, returned = module.train_grpo.entrypoint(
        folder, folder, rollouts, rewards, TrainingConfig(), "", 1.0, 256, 3, "cpu"
    )
    assert (policy == folder) == bool(stopped)
    assert bool(runtime.kept) == (not stopped)  # a policy with bad numbers must not stay warm
    clocks = {name: returned.metrics[f"perf/{name}_seconds"] for name in ("rollout", "score", "train")}
    assert clocks == {"rollout": 4.0, "score": 0.25, "train": 2.0}
    if not stopped:
        assert policy.metadata.round == 4
        assert policy.metadata.stage == "grpo"


def test_the_runtime_gives_the_live_policy_or_loads_the_same_weights(tmp_path):
    runtime, policy = Runtime(), make_policy()
    folder = save_policy(policy, tmp_path / "policy")
    runtime.keep(policy)
    assert runtime.policy(folder, "cpu") is policy
    assert runtime.borrow(folder, "cpu") is policy
    cold = runtime.policy(folder, "cpu")  # borrowed: it is not here until it is kept again
    assert cold is not policy
    for name, weight in policy.model.state_dict().items():
        assert np.array_equal(weight.numpy(), cold.model.state_dict()[name].numpy())
    runtime.close()


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
