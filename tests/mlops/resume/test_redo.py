"""Which steps run again: what is damaged, what it was trained from if that is lost, and what comes after."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mlops.resume import redo
from rlft.errors import DamagedError, RlftError, WeightsRemovedError


def artifact(name):
    return SimpleNamespace(id=name, uri=f"/store/{name}", producer_step_run_id=f"maker of {name}")


def step(name, outputs, **inputs):
    given = {kind: [artifact(each)] for kind, each in inputs.items()}
    status = SimpleNamespace(is_successful=name != "register_policy")
    return SimpleNamespace(
        name=name, outputs={each: [artifact(each)] for each in outputs}, inputs=given, status=status, id=f"id of {name}"
    )


STEPS = [
    step("ingest_tasks", ["tasks"]),
    step("warm_start", ["p0"], tasks="tasks"),
    step("sft_control", ["control"], policy="p0"),
    step("generate_rollouts_r000", ["r0"], policy="p0", tasks="tasks"),
    step("train_grpo_r000", ["p1", "report0"], policy="p0", reference="p0", rollouts="r0"),
    step("generate_rollouts_r001", ["r1"], policy="p1", tasks="tasks"),
    step("train_grpo_r001", ["p2", "report1"], policy="p1", reference="p0", rollouts="r1"),
    step("generate_rollouts_trained", ["r2"], policy="p2", tasks="tasks"),
    step("register_policy", [], policy="p2"),
]
RUN = SimpleNamespace(name="a-resumed-1", config=SimpleNamespace(parameters={"labels": {"name": "a b"}}))


@pytest.fixture
def forgotten(monkeypatch):
    """The names of steps that the cache was told to forget."""
    names = []
    monkeypatch.setattr(redo, "_steps", lambda _: STEPS)
    monkeypatch.setattr(redo, "_forget", lambda steps: names.extend(sorted(step.name for step in steps)))
    monkeypatch.setattr(redo, "_made_again_before", lambda _: set())
    monkeypatch.setattr(redo, "weights_removed", lambda uri: uri == "/store/p1")
    return names


def test_rollouts_are_sampled_again_and_everything_beside_them_is_kept(forgotten):
    kept = redo.steps_to_keep(RUN, ["generate_rollouts_r000"])
    assert kept == {"ingest_tasks", "warm_start", "sft_control"}
    assert forgotten == ["generate_rollouts_r000"]  # what comes after it may come from the cache


def test_a_policy_whose_parent_has_lost_its_weights_is_trained_again_with_its_parent(forgotten):
    kept = redo.steps_to_keep(RUN, ["train_grpo_r001"])
    assert forgotten == ["train_grpo_r000", "train_grpo_r001"]
    assert kept == {"ingest_tasks", "warm_start", "sft_control", "generate_rollouts_r000"}


def test_the_last_step_alone(forgotten):
    assert redo.steps_to_keep(RUN, ["register_policy"]) == {step.name for step in STEPS} - {"register_policy"}
    assert forgotten == ["register_policy"]


def test_what_another_attempt_has_made_again_is_not_kept_and_not_forgotten(forgotten, monkeypatch):
    monkeypatch.setattr(redo, "_made_again_before", lambda _: {"train_grpo_r000"})
    kept = redo.steps_to_keep(RUN, ["generate_rollouts_trained"])
    assert forgotten == ["generate_rollouts_trained"]
    assert kept == {"ingest_tasks", "warm_start", "sft_control", "generate_rollouts_r000"}


def test_policies_without_weights_are_made_again_with_all_that_comes_after_them(forgotten, monkeypatch):
    monkeypatch.setattr(redo, "lacks_weights", lambda step: step.name == "train_grpo_r000")
    monkeypatch.setattr(redo, "finished_steps", lambda run: {step.name for step in STEPS} - {"sft_control"})
    assert redo.steps_with_weights(RUN) == {"ingest_tasks", "warm_start", "generate_rollouts_r000"}
    assert forgotten == []


def test_a_step_that_the_run_has_not_is_refused_with_those_that_it_has(forgotten):
    with pytest.raises(RlftError, match="has no step 'train_grpo_r01'") as caught:
        redo.steps_to_keep(RUN, ["train_grpo_r01"])
    assert "train_grpo_r001" in caught.value.fix
    assert forgotten == []


def test_an_error_names_the_run_that_met_it_and_not_the_one_that_stored_it(forgotten):
    with pytest.raises(DamagedError) as caught, redo.naming_damage(RUN):
        raise DamagedError("gone", where="/store/p2/policy/policy.json", run="another", step="another_step")
    assert "`rlft resume 'a b' --redo train_grpo_r001`" in caught.value.fix
    assert (caught.value.what, caught.value.where) == ("gone", "/store/p2/policy/policy.json")
    with pytest.raises(WeightsRemovedError) as removed, redo.naming_damage(RUN):
        raise WeightsRemovedError("removed", where="/store/p1/policy")
    assert "--redo train_grpo_r000" in removed.value.fix
    with pytest.raises(DamagedError) as unknown, redo.naming_damage(RUN):
        raise DamagedError("gone", where="/store/p22/policy", run="another", step="another_step")
    assert "--redo another_step" in unknown.value.fix
