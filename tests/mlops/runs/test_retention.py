"""Which weights are removed while a run goes on. With real runs: tests/e2e/test_train.py and test_removal.py."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from mlops.runs import policies as retention
from mlops.runs.policies import Retention, lacks_weights, removed_by_keep, weights_removed
from rlft.config import KeepConfig
from rlft.files import REMOVED, make_seal


@pytest.fixture
def artifact(tmp_path, monkeypatch):
    """Makes policies that ZenML has under tags."""
    tags: dict[str, list[str]] = {}

    def get(name):
        return SimpleNamespace(tags=[SimpleNamespace(name=tag) for tag in tags[name]])

    monkeypatch.setattr(retention, "Client", lambda: SimpleNamespace(get_artifact_version=get))

    def make(name, *has):
        tags[name] = list(has)
        for file in ("optimizer.safetensors", "model/model.safetensors", "policy.json"):
            (tmp_path / name / "policy" / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / "policy" / file).touch()
        return SimpleNamespace(id=name, uri=str(tmp_path / name))

    return make


def weights(tmp_path):
    return sorted(file.relative_to(tmp_path).parts[0] for file in tmp_path.rglob("*.safetensors"))


def test_the_newest_and_the_best_keep_their_weights(artifact, tmp_path):
    own = Retention(KeepConfig(last=1))
    for number in range(1, 5):
        own.keep(artifact(f"p{number}", "run=a", "round=1", "experiment=e"), number, best=2)
    assert weights(tmp_path) == ["p2", "p2", "p4", "p4"]
    assert (tmp_path / "p1/policy/policy.json").is_file()
    assert [(tmp_path / f"p{number}" / REMOVED).is_file() for number in range(1, 5)] == [True, False, True, False]


def test_a_removal_that_is_cut_short_has_left_its_mark(artifact, tmp_path, monkeypatch):
    removed = []

    def cut(name):
        if removed:
            raise KeyboardInterrupt
        removed.append(name)
        Path(name).unlink()

    policy = artifact("p1", "run=a")
    root = tmp_path / "p1"
    names = ("policy/policy.json", "policy/model/model.safetensors", "policy/optimizer.safetensors")
    seal = make_seal(policy.uri, {name: root / name for name in names}, "a", "train_grpo_r000")
    (root / REMOVED).touch()
    assert not seal.weights_removed(root)  # nothing is gone yet
    (root / REMOVED).unlink()
    monkeypatch.setattr(retention.fileio, "remove", cut)
    own = Retention(KeepConfig(last=1))
    own.keep(policy, 1, best=0)
    with pytest.raises(KeyboardInterrupt):
        own.keep(artifact("p2", "run=a"), 2, best=0)
    assert len(removed) == 1
    assert seal.weights_removed(root)
    assert list(seal.damages(root)) == []


def test_what_another_run_has_keeps_its_weights(artifact, tmp_path):
    own = Retention(KeepConfig(last=1))
    own.keep(artifact("p1", "run=a", "run=b", "round=0"), 1, best=0)
    own.keep(artifact("p2", "run=a"), 2, best=0)
    own.keep(artifact("p3", "run=a"), 3, best=0)
    assert weights(tmp_path) == ["p1", "p1", "p3", "p3"]


def test_weights_that_somebody_else_has_removed_are_not_taken_for_those_of_retention(artifact, tmp_path):
    policy = artifact("p1", "run=a")
    for file in tmp_path.rglob("*.safetensors"):
        file.unlink()
    assert weights_removed(policy.uri)
    assert not removed_by_keep(policy.uri)
    (tmp_path / "p1" / REMOVED).touch()
    assert removed_by_keep(policy.uri)


def test_a_step_lacks_weights_if_it_has_trained_a_policy_without_them(artifact, tmp_path):
    def step(name, *policies):
        return SimpleNamespace(name=name, outputs={"policy": list(policies)} if policies else {})

    whole, bare = artifact("whole", "run=a"), artifact("bare", "run=a")
    for file in (tmp_path / "bare").rglob("*.safetensors"):
        file.unlink()
    steps = [step("train_grpo_r000", bare), step("train_grpo_r001", whole), step("train_grpo_r002")]
    # What stands behind an address has no weights, and is not trained.
    steps += [step("ask_model", bare)]
    assert [lacks_weights(each) for each in steps] == [True, False, False, False]  # type: ignore[arg-type]
