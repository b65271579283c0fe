"""Which policies of a run there are, told to one who names another."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from zenml.client import Client

from mlops.home.folder import Home
from mlops.runs import policies
from mlops.runs.policies import stored_policy
from mlops.summary.summary import Summary
from rlft.errors import RlftError, WeightsRemovedError


@pytest.fixture
def run(monkeypatch):
    """A run of 12 rounds in two attempts, of which `policy.keep` has left the policies after 4, 11 and 12 rounds."""
    done = {"first": range(6), "second": range(5, 12)}

    def list_run_steps(self, *, pipeline_run_id, name, size):
        del self, size
        names = [f"train_grpo_r{number:03d}" for number in done[pipeline_run_id]]
        asked = name.removeprefix("startswith:")
        found = [each for each in names if (each.startswith(asked) if asked != name else each == asked)]
        status = SimpleNamespace(is_successful=True)
        return [SimpleNamespace(name=each, id=f"{pipeline_run_id} {each}", status=status) for each in found]

    def get_run_step(self, step):
        del self
        return SimpleNamespace(outputs={"policy": [SimpleNamespace(uri=step)]})

    kept = {"first train_grpo_r003", "second train_grpo_r010", "second train_grpo_r011"}
    monkeypatch.setattr(Client, "__init__", lambda self: None)
    monkeypatch.setattr(Client, "_global_client", None)  # the only one, which other tests would get
    monkeypatch.setattr(Client, "list_run_steps", list_run_steps)
    monkeypatch.setattr(Client, "get_run_step", get_run_step)
    monkeypatch.setattr(
        policies, "find_run", lambda name: SimpleNamespace(name=name, config=SimpleNamespace(parameters={}))
    )
    monkeypatch.setattr(
        policies, "attempts_of", lambda found: [SimpleNamespace(id="second"), SimpleNamespace(id="first")]
    )
    monkeypatch.setattr(policies, "removed_by_keep", lambda uri: uri not in kept)


def test_a_round_that_is_not_there_is_told_with_those_that_are_kept(run):
    with pytest.raises(RlftError) as told:
        stored_policy(None, "first", "round", 99)  # type: ignore[arg-type]
    assert told.value.what == "the run has no such policy: it has 12 rounds"
    assert told.value.fix == "name another one: weights are kept after so many rounds: 4, 11, 12"


def test_a_round_whose_weights_are_gone_is_told_with_those_that_are_kept(run):
    assert stored_policy(None, "first", "round", 4).uri == "first train_grpo_r003"  # type: ignore[arg-type]
    with pytest.raises(WeightsRemovedError) as told:
        stored_policy(None, "first", "round", 5)  # type: ignore[arg-type]
    assert told.value.fix.endswith("name a round that was kept: weights are kept after so many rounds: 4, 11, 12")


@pytest.mark.parametrize(("told", "uri"), [(11, "second train_grpo_r010"), (4, "first train_grpo_r003")])
def test_the_best_policy_of_a_run_that_another_home_has_begun_is_the_one_that_mlflow_tells(
    run, monkeypatch, tmp_path, told, uri
):
    monkeypatch.setattr(policies, "stored_summary", lambda home, run: Summary(status="improved", best_round=told))
    assert stored_policy(Home(tmp_path), "first", "best", None).uri == uri


def test_a_run_of_which_nothing_tells_the_best_policy_has_none(run, monkeypatch, tmp_path):
    monkeypatch.setattr(policies, "stored_summary", lambda home, run: None)
    with pytest.raises(RlftError) as told:
        stored_policy(Home(tmp_path), "first", "best", None)
    assert told.value.what.startswith("the run has no best policy yet")
    assert told.value.fix == "name a round, such as first:round=1, or `rlft resume` the run"
