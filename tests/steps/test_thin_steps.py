"""Steps with fakes in place of the library: what they pass on, and what they keep."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mlops.runs.runtime import Runtime
from rlft.config import TrainingConfig
from rlft.models import PolicyFolder
from rlft.training.job import Round
from rlft.types import Rewards, Rollouts, TrainReport
from steps import round as module
from tests.factories import make_policy

STEPS = Path(module.__file__).parent
ROUND = Round(number=3, temperature=1.0, max_completion_length=256)


@pytest.mark.parametrize("file", sorted(p.name for p in STEPS.glob("*.py") if p.name != "__init__.py"))
def test_a_step_only_connects(file):
    tree = ast.parse((STEPS / file).read_text())
    more = (ast.For, ast.While, ast.Lambda, ast.ClassDef)
    assert [type(node) for node in ast.walk(tree) if isinstance(node, more)] == []
    steps = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.decorator_list]
    assert steps
    assert [step.name for step in steps if step.end_lineno - step.lineno >= 50] == []


class FakePolicies:
    """Hands out one policy, and remembers what was kept."""

    training_progress = None

    def __init__(self, policy):
        self.live, self.kept = policy, []

    def note_training(self):
        """Nothing is sampled beside it."""

    def borrow(self, folder, device):
        return self.live

    def keep(self, policy):
        self.kept.append(policy)


class FakeRuntime(Runtime):
    """Has one policy, and one folder for the next."""

    def __init__(self, policy, tmp_path):
        super().__init__()
        self.policies, self.target = FakePolicies(policy), tmp_path / "next"

    def new_folder(self):
        return self.target


@pytest.mark.parametrize("stopped", [None, "loss nan"])
def test_a_round_that_is_undone_gives_back_the_policy_that_came_in(stopped, tmp_path, monkeypatch):
    runtime = FakeRuntime(make_policy(), tmp_path)
    folder = PolicyFolder(tmp_path / "before")
    report = TrainReport(round=3, metrics={"policy_loss": 0.5}, fates={}, updates=1, seconds=2.0, stopped=stopped)
    monkeypatch.setattr(module, "current_runtime", lambda: runtime)
    monkeypatch.setattr("rlft.training.job.train_round", lambda *args, **kwargs: report)
    rollouts, rewards = Rollouts(rows=(), seconds=4.0), Rewards(rows=(), weights={}, seconds=0.25)
    policy, returned = module.train_grpo.entrypoint(
        folder, folder, rollouts, rewards, TrainingConfig(), "", ROUND, "cpu"
    )
    assert (policy == folder) == bool(stopped)
    assert bool(runtime.policies.kept) == (not stopped)  # a policy with bad numbers must not stay warm
    clocks = {name: returned.metrics[f"perf/{name}_seconds"] for name in ("rollout", "score", "train")}
    assert clocks == {"rollout": 4.0, "score": 0.25, "train": 2.0}
    if not stopped:
        assert policy.metadata.round == 4
        assert policy.metadata.stage == "grpo"
