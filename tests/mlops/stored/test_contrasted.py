"""Runs side by side, from what is stored of them."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest

from cli.compared import show_comparison
from mlops.display.terminal import Terminal
from mlops.stored import contrasted
from mlops.stored.contrast import Attempt, StoredRun, is_scored_alike
from mlops.stored.contrasted import make_comparison
from rlft.contrasts import Asked
from rlft.errors import RlftError
from rlft.types import EvaluationReport


def run(name, solved, *, seed=0, rate=1e-3, tasks=40, asked="same", fingerprint="f", ids="t", reward="r") -> StoredRun:
    """A run that has solved the first `solved` of its tasks."""
    ids = [f"{ids}{number:02d}" for number in range(tasks)]
    scores = {task: float(number < solved) for number, task in enumerate(ids)}
    report = EvaluationReport("test", name, 1, {}, {"accuracy": scores, "reward": scores})
    settings = {"name": name, "seed": seed, "training": {"learning_rate": rate}}
    code = {"fingerprint of reward": reward}
    return StoredRun(
        name,
        None,
        settings,
        code,
        {task: Asked(f"{asked} {task[-2:]}", "right") for task in ids},
        fingerprint,
        report,
        name,
    )


@pytest.fixture(autouse=True)
def _stored(monkeypatch):
    def said(run, tasks):
        return {
            task: [Attempt(f"{run.name} at {task} [red]\x1b[2J", run.report.per_task["reward"][task])] for task in tasks
        }

    monkeypatch.setattr(contrasted, "attempts_at", said)
    monkeypatch.setattr(contrasted, "prompts_of", lambda run, tasks: {task: f"what is {task}?" for task in tasks})


def shown(found) -> str:
    console = Terminal(file=StringIO(), width=200)
    show_comparison(console, found)
    return console.file.getvalue()


def compared(*runs, tasks=2):
    return make_comparison({each.name: each for each in runs}, "test", tasks)


def test_two_runs_of_one_seed_each_tell_of_models_and_not_of_settings():
    found = compared(run("a", 10), run("b", 36, rate=1e-2))
    (pair,) = found["pairs"]
    assert pair["stands"]
    assert pair["difference"]["mean"] == pytest.approx(26 / 40)
    assert found["settings"] == {"name": {"a": "a", "b": "b"}, "training.learning_rate": {"a": 1e-3, "b": 1e-2}}
    assert [(each["solver"], each["count"]) for each in found["solved_by_one"]] == [("b", 26), ("a", 0)]
    assert [task["id"] for task in found["solved_by_one"][0]["tasks"]] == ["t10", "t11"]
    said = shown(found)
    assert "the model of b is better" in said
    assert "nobody can say which is better, as A and B had one seed each. A difference of this size is found" in said
    assert "b (1): b at t10 [red]\\x1b[2J" in said
    assert "\x1b" not in said


def test_settings_with_several_seeds_are_compared_over_them():
    low = [run(f"a{seed}", 10 + seed, seed=seed) for seed in range(3)]
    high = [run(f"b{seed}", 34 + seed, seed=seed, rate=1e-2) for seed in range(3)]
    found = compared(*low, *high)
    assert found["groups"] == [["a0", "a1", "a2"], ["b0", "b1", "b2"]]
    (pair,) = found["of_settings"]
    assert pair["stands"]
    assert ": B is better" in shown(found)
    same = compared(*low)
    assert "All runs have the same setting" in shown(same)
    assert same["of_settings"] == []


def test_only_tasks_that_ask_the_same_are_compared():
    one, two = run("a", 10), run("b", 10, tasks=50, fingerprint="g")
    two.asked["t00"] = Asked("another question", "right")
    found = compared(one, two)
    assert (found["tasks"], found["left_out"]) == (39, {"a": 1, "b": 11})
    assert found["data"] == {"tasks": {"a": "f", "b": "g"}}
    assert "left out: 1 of a, 11 of b" in shown(found)
    with pytest.raises(RlftError, match="a and b share no question of test"):
        compared(run("a", 1), run("b", 1, asked="else"))


def test_the_same_attempts_by_two_rewards_are_no_two_models():
    found = compared(run("a", 10), replace(run("b", 36), model="a"))
    (pair,) = found["pairs"]
    assert pair["difference"]["mean"] == pytest.approx(26 / 40)  # it would stand, if these were two models
    assert (pair["stands"], "same attempts of one model" in pair["obstacle"]) == (False, True)


def test_runs_of_an_old_and_a_new_reward_on_the_same_rows_are_compared_and_no_model_is_said_to_be_better():
    found = compared(run("old", 10), run("new", 36, ids="u", reward="other"))
    assert (found["tasks"], found["left_out"]) == (40, {"old": 0, "new": 0})
    (pair,) = found["pairs"]
    assert pair["difference"]["mean"] == pytest.approx(26 / 40)  # it would stand, if one reward had scored both
    assert (pair["stands"], pair["obstacle"]) == (False, "different rewards scored them")
    assert found["rewards"] == found["groups"] == [["old"], ["new"]]  # another reward is another setting
    (pair,) = found["of_settings"]
    assert (pair["stands"], pair["seeds_needed"]) == (False, [])
    (task, _) = found["solved_by_one"][0]["tasks"]
    assert task["id"] == "t10"
    assert [each[0]["text"].split()[:3] for each in task["attempts"].values()] == [
        ["new", "at", "u10"],
        ["old", "at", "t10"],
    ]
    said = shown(found)
    assert "Different rewards scored these runs: old; another one new." in said
    assert said.count("no evidence, as different rewards scored them") == 2
    assert "better by it" in said
    assert "Tasks that new solves more often than old, each by its own reward: 26" in said
    assert "Different rewards" not in shown(compared(run("a", 1), run("b", 2)))


def test_weights_make_another_reward_and_without_a_fingerprint_the_environment_does():
    one = run("a", 1)
    assert is_scored_alike(one, run("b", 2))
    assert not is_scored_alike(one, replace(one, settings={"reward": {"weights": {"exact": 2.0}}}))
    old = replace(one, code={}, settings={"environment": {"name": "old.py:Env"}})
    assert is_scored_alike(old, old)
    assert not is_scored_alike(old, replace(old, settings={"environment": {"name": "new.py:Env"}}))
