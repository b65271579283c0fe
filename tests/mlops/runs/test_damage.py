"""Which steps run again: what is damaged, what it was trained from if that is lost, and what comes after."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest

from mlops.home.folder import Home
from mlops.ids import AUDIT
from mlops.runs import resuming as damage
from mlops.runs.store import RunStore
from rlft.errors import DamagedError
from tests.mlops.made import make_run, put


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
    return names


def test_rollouts_are_sampled_again_and_everything_beside_them_is_kept(forgotten):
    kept = damage.steps_to_keep(RUN, ["generate_rollouts_r000"])
    assert kept == {"ingest_tasks", "warm_start", "sft_control"}
    assert forgotten == ["generate_rollouts_r000"]  # what comes after it may come from the cache


def test_the_last_step_alone(forgotten):
    assert damage.steps_to_keep(RUN, ["register_policy"]) == {step.name for step in STEPS} - {"register_policy"}
    assert forgotten == ["register_policy"]


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
    """Of four results one is whole, and three are damaged in three ways."""
    home = Home(tmp_path)
    run = RunStore(home).start(make_run("1", "a b"), "a b")
    places, steps = {}, []
    for name in ("whole", "changed", "lost", "gone"):
        put(run, AUDIT, name, b"{}")
        places[name] = home.root / "artifacts" / "a b" / AUDIT.step_id(name) / AUDIT.output
        files = run.steps[AUDIT.step_id(name)]["outputs"][AUDIT.output]["files"]
        made = SimpleNamespace(uri=str(places[name]), run_metadata={"files": files})
        steps.append(SimpleNamespace(name=AUDIT.step_id(name), outputs={AUDIT.output: [made]}))
    monkeypatch.setattr(damage, "_steps", lambda _: steps)
    assert damage.damages_of(home, RUN) == {}
    (places["changed"] / AUDIT.file).write_bytes(b"[]")
    (places["lost"] / AUDIT.file).unlink()
    shutil.rmtree(places["gone"])
    found = damage.damages_of(home, RUN)
    assert found.keys() == {f"{AUDIT.step}_{name}" for name in ("changed", "lost", "gone")}
    assert {each.run for each in found.values()} == {"a b"}
    assert found[f"{AUDIT.step}_changed"].where == str(places["changed"] / AUDIT.file)
    assert damage.damages_of(Home(tmp_path / "other"), RUN) == {}
