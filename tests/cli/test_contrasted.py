"""Runs side by side, from what is stored of them."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest

from cli import contrasted
from cli.compare import show_comparison
from cli.contrasted import StoredRun, is_sampled_alike, make_comparison
from rlft.errors import RlftError
from rlft.evaluation.contrasts import Asked
from rlft.reporting.terminal import Terminal
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
    )


@pytest.fixture(autouse=True)
def _stored(monkeypatch):
    monkeypatch.setattr(contrasted, "prompts_of", lambda run, tasks: {task: f"{task} [red]\x1b[2J" for task in tasks})


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
    assert "\x1b" not in said
    said = " ".join(said.split())
    assert "as setting 1 had one seed and setting 2 had one seed" in said
    assert "t10 (b 100%, a 0%): t10 [red]\\x1b[2J" in said


@pytest.mark.slow
def test_settings_with_several_seeds_are_compared_over_them():
    low = [run(f"a{seed}", 10 + seed, seed=seed) for seed in range(3)]
    high = [run(f"b{seed}", 34 + seed, seed=seed, rate=1e-2) for seed in range(3)]
    found = compared(*low, *high)
    assert found["groups"] == [["a0", "a1", "a2"], ["b0", "b1", "b2"]]
    (pair,) = found["of_settings"]
    assert pair["stands"]
    said = shown(found)
    assert "setting 2: b0, b1, b2" in said
    assert "over seeds and tasks (95 %): setting 2 is better" in said
    same = compared(*low)
    assert "All runs have the same setting" in shown(same)
    assert same["gains"] == [None]  # what these started from was not evaluated
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


def test_runs_of_an_old_and_a_new_reward_on_the_same_rows_are_compared_and_no_model_is_said_to_be_better():
    found = compared(run("old", 10), run("new", 36, ids="u", reward="other"))
    assert (found["tasks"], found["left_out"]) == (40, {"old": 0, "new": 0})
    (pair,) = found["pairs"]
    assert pair["difference"]["mean"] == pytest.approx(26 / 40)  # it would stand, if one reward had scored both
    assert (pair["stands"], "different rewards scored them" in pair["obstacle"]) == (False, True)
    assert found["groups"] == [["old"], ["new"]]  # another reward is another setting
    (pair,) = found["of_settings"]
    assert not pair["stands"]
    (task, _) = found["solved_by_one"][0]["tasks"]
    assert task["id"] == "t10"
    said = shown(found)
    assert said.count("no evidence, as different rewards scored them") == 2
    assert "rlft rescore RUN --config NEW.yaml" in said
    assert "different rewards" not in shown(compared(run("a", 1), run("b", 2)))


COLD, WARM = {"evaluation.temperature": 0.0}, {"evaluation.temperature": 1.0}


def test_the_same_weights_measured_in_two_ways_are_not_better_than_themselves():
    # Two seeds, each once at temperature 1 and once at 0: 10 and 11 of 40 tasks, and 36 and 37, by the same weights.
    warm = [replace(run(f"w{seed}", 10 + seed, seed=seed, rate=1), sampled=WARM) for seed in (0, 1)]
    cold = [replace(run(f"c{seed}", 36 + seed, seed=seed, rate=2), sampled=COLD) for seed in (0, 1)]
    found = compared(*warm, *cold)
    assert not any(pair["stands"] for pair in (*found["pairs"], *found["of_settings"]))
    obstacles = {(pair["first"], pair["second"]): pair["obstacle"] for pair in found["pairs"]}
    assert all("sampled in different ways" in obstacles[f"w{one}", f"c{other}"] for one in (0, 1) for other in (0, 1))
    assert obstacles["w0", "w1"] is None
    (pair,) = found["of_settings"]
    assert "sampled in different ways" in pair["obstacle"]
    said = shown(found)
    assert "rlft evaluate RUN:best RUN:best --suite CONFIG.yaml" in said
    assert "the model of" not in said
    other = shown(compared(warm[0], cold[1]))
    assert "setting 2 minus setting 1: +0.675: no evidence, as their attempts were sampled in different ways" in other
    alike = shown(compared(warm[0], replace(cold[1], sampled=WARM)))
    assert "the model of c1 is better" in alike
    assert "in different ways" not in alike


def test_other_code_of_prompts_and_tools_is_another_way_of_sampling():
    def coded(name, code, arguments=None):
        each = run(name, 10)
        environment = {"name": "a.py:A", "kwargs": arguments or {}}
        return replace(
            each,
            settings={**each.settings, "environment": environment},
            code={**each.code, "fingerprint of harness": code},
        )

    one = coded("a", "1")
    assert is_sampled_alike(one, coded("b", "1"))
    assert not is_sampled_alike(one, coded("b", "2"))
    assert is_sampled_alike(one, coded("b", "2", {"tolerance": 1}))  # the fingerprint covers what the reward reads
    assert is_sampled_alike(one, run("b", 10))  # an older run, whose code is not known
    found = compared(one, coded("b", "2"))
    assert found["groups"] == [["a"], ["b"]]
    assert "no evidence, as their attempts were sampled in different ways" in shown(found)


def started(run, solved, status="improved"):
    """The run with what its training started from: a policy that solves the first `solved` tasks."""
    scores = {task: float(number < solved) for number, task in enumerate(run.report.per_task["accuracy"])}
    return replace(run, status=status, start=replace(run.report, per_task={"accuracy": scores}))


def test_where_each_run_started_is_told():
    # a: 24 to 30 of 40 tasks, gain 6/40; b: 8 to 28, gain 20/40 under other ids.
    found = compared(started(run("a", 30), 24, "not_improved"), started(run("b", 28, ids="u"), 8), run("c", 3))
    assert found["training"]["a"]["status"] == "not_improved"
    assert (found["training"]["a"]["before"], found["training"]["a"]["after"]) == (0.6, 0.75)
    gain = found["training"]["b"]["gain"]
    assert (gain["mean"], gain["tasks"]) == (pytest.approx(0.5), 40)
    assert 0 < gain["low"] < 0.5 < gain["high"]
    assert found["training"]["c"] == {"status": "unknown", "before": None, "after": 0.075, "gain": None}
    said = shown(found)
    assert f"b    improved      0.200   0.700  +0.500 [{gain['low']:+.3f}, {gain['high']:+.3f}]" in said


def test_reruns_of_a_seed_are_told_and_count_as_one():
    again = [run("a", 10), run("a-again", 11), run("b", 36, rate=1e-2), run("b-again", 37, rate=1e-2)]
    found = compared(*again)
    assert (found["groups"], found["seeds"]) == ([["a", "a-again"], ["b", "b-again"]], [1, 1])
    assert not found["of_settings"][0]["stands"]
    said = " ".join(shown(found).split())
    assert "setting 1: a, a-again (one seed; runs of one seed count as one)" in said
    assert "nobody can say which is better, as setting 1 had one seed and setting 2 had one seed" in said
