"""Which steps run again: what is damaged, what it was trained from if that is lost, and what comes after."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from mlops.home.folder import Home
from mlops.runs import resuming as damage
from rlft.errors import DamagedError
from rlft.seals import make_seal, seal_place


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
    monkeypatch.setattr(damage, "_steps", lambda _: STEPS)
    monkeypatch.setattr(damage, "_forget", lambda steps: names.extend(sorted(step.name for step in steps)))
    monkeypatch.setattr(damage, "_made_again_before", lambda _: set())
    monkeypatch.setattr(damage, "weights_removed", lambda uri: uri == "/store/p1")
    return names


def test_rollouts_are_sampled_again_and_everything_beside_them_is_kept(forgotten):
    kept = damage.steps_to_keep(RUN, ["generate_rollouts_r000"])
    assert kept == {"ingest_tasks", "warm_start", "sft_control"}
    assert forgotten == ["generate_rollouts_r000"]  # what comes after it may come from the cache


def test_a_policy_whose_parent_has_lost_its_weights_is_trained_again_with_its_parent(forgotten):
    kept = damage.steps_to_keep(RUN, ["train_grpo_r001"])
    assert forgotten == ["train_grpo_r000", "train_grpo_r001"]
    assert kept == {"ingest_tasks", "warm_start", "sft_control", "generate_rollouts_r000"}


def test_the_last_step_alone(forgotten):
    assert damage.steps_to_keep(RUN, ["register_policy"]) == {step.name for step in STEPS} - {"register_policy"}
    assert forgotten == ["register_policy"]


def test_what_another_attempt_has_made_again_is_not_kept_and_not_forgotten(forgotten, monkeypatch):
    monkeypatch.setattr(damage, "_made_again_before", lambda _: {"train_grpo_r000"})
    kept = damage.steps_to_keep(RUN, ["generate_rollouts_trained"])
    assert forgotten == ["generate_rollouts_trained"]
    assert kept == {"ingest_tasks", "warm_start", "sft_control", "generate_rollouts_r000"}


def test_policies_without_weights_are_made_again_with_all_that_comes_after_them(forgotten, monkeypatch):
    monkeypatch.setattr(damage, "lacks_weights", lambda step: step.name == "train_grpo_r000")
    monkeypatch.setattr(damage, "finished_steps", lambda run: {step.name for step in STEPS} - {"sft_control"})
    assert damage.steps_with_weights(RUN) == {"ingest_tasks", "warm_start", "generate_rollouts_r000"}
    assert forgotten == []


def test_an_error_names_the_run_that_met_it_and_not_the_one_that_stored_it(forgotten):
    with pytest.raises(DamagedError) as caught, damage.naming_damage(RUN):
        raise DamagedError("gone", where="/store/p2/policy/policy.json", run="another", step="another_step")
    assert (caught.value.run, caught.value.step) == ("a b", "train_grpo_r001")
    assert (caught.value.what, caught.value.where) == ("gone", "/store/p2/policy/policy.json")
    assert forgotten == ["train_grpo_r001"]
    with pytest.raises(DamagedError) as unknown, damage.naming_damage(RUN):
        raise DamagedError("gone", where="/store/p22/policy", run="another", step="another_step")
    assert (unknown.value.run, unknown.value.step) == ("another", "another_step")


def test_what_is_damaged_is_told_by_step(tmp_path, monkeypatch):
    """Of six results one is whole, one is on another store, and four are damaged in four ways."""
    home, steps = Home(tmp_path), []
    store = tmp_path / "zenml" / "local_stores" / "store"

    def stored(name, *, sealed=True):
        place = store / name
        place.mkdir(parents=True)
        (place / "report.json").write_bytes(b"{}")
        given = {}
        if sealed:
            seal = make_seal(str(place), {"report.json": b"{}"}, "first", name)
            file = Path(seal_place(str(store), str(place)))
            file.parent.mkdir(exist_ok=True)
            file.write_text(seal.text())
            given["seal"] = seal.digest
        result = SimpleNamespace(uri=str(place), run_metadata=given)
        steps.append(SimpleNamespace(name=name, outputs={"report": [result]}))
        return place

    stored("whole"), stored("old", sealed=False)
    (stored("changed") / "report.json").write_bytes(b"[]")
    (stored("lost") / "report.json").unlink()
    Path(seal_place(str(store), str(stored("seal")))).unlink()
    (gone := stored("gone", sealed=False) / "report.json").unlink()
    gone.parent.rmdir()
    other = SimpleNamespace(uri="s3://bucket/away", run_metadata={"seal": "0"})
    steps.append(SimpleNamespace(name="away", outputs={"report": [other]}))
    monkeypatch.setattr(damage, "_steps", lambda _: steps)
    found = damage.damages_of(home, RUN)
    assert found.keys() == {"changed", "lost", "seal", "gone"}
    assert {each.run for each in found.values()} == {"a b"}
    assert found["changed"].where == str(store / "changed" / "report.json")
