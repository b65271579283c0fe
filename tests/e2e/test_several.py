"""Runs with several environments: one with tools and one without, each with its own tasks, share and reward."""

from __future__ import annotations

import copy
import json

import pytest
import yaml

from tests.e2e.conftest import ROOT, Home, Result

SEVERAL = ROOT / "tests" / "fixtures" / "configs" / "several.yaml"
pytestmark = [pytest.mark.timeout(600), pytest.mark.slow, pytest.mark.long]
LOOK = """
from collections import Counter
from mlops.ids import REWARDS, ROLLOUTS, TRAIN_REPORT, AUDIT
from mlops.home.folder import find_home
from mlops.runs.store import RunStore

run = RunStore(find_home()).called("several")
rounds = []
for name in ("r000", "r001"):
    rollouts, rewards = run.output(ROLLOUTS, name), run.output(REWARDS, name)
    report = run.output(TRAIN_REPORT, name)
    rounds.append({
        "drawn": Counter(rollout.task_id.partition("/")[0] for rollout in rollouts if rollout.sample == 0),
        "rows": [[row.task_id, row.total, row.parts] for row in rewards],
        "roles": sorted({(r.task_id.partition("/")[0], m["role"]) for r in rollouts for m in r.messages}),
        "members": rewards.members, "weights": rewards.weights,
        "metrics": report.metrics, "fates": report.fates,
    })
audit = run.output(AUDIT, "")
print(json.dumps({"rounds": rounds, "audit": [audit.passed, audit.members, list(audit.attacks)]}))
"""
CONTEXT = """
import mlflow
from pathlib import Path

[version] = mlflow.MlflowClient().search_model_versions("name = 'several'")
folder = Path(mlflow.artifacts.download_artifacts(f"models:/several/{version.version}"))
print(json.dumps({
    "context": json.loads(next(folder.rglob("context.json")).read_text()),
    "card": next(folder.rglob("README.md")).read_text(),
}))
"""


@pytest.fixture(scope="module")
def ran(make_home) -> tuple[Home, Result]:
    home = make_home("several")
    return home, home.rlft("run", str(SEVERAL), "--name", "several")


@pytest.fixture(scope="module")
def found(ran) -> dict:
    home, _ = ran
    return home.query(LOOK)


def test_it_ends_and_says_what_came_of_each_environment(ran):
    _, result = ran
    assert result.code == 0, result.output
    assert result.summary["rounds"] == 2
    final = result.summary["final"]
    # Of twelve test tasks each, so the mean over all is that of the two means.
    both = [final[f"environments/{name}/accuracy"] for name in ("divisors", "sums")]
    assert final["accuracy"] == pytest.approx(sum(both) / 2)
    assert set(result.summary["constant_answers"]) == {"divisors", "sums"}
    said = " ".join(result.summary["promotion"]["reasons"])
    assert "environment=divisors" in said
    assert "environment=sums" in said


def test_tasks_come_by_their_shares(found):
    assert [each["drawn"] for each in found["rounds"]] == [{"divisors": 6, "sums": 2}] * 2


def test_each_environment_scores_its_own_attempts(found):
    for each in found["rounds"]:
        assert each["members"] == ["divisors", "sums"]
        assert each["weights"] == {"divisors/correct": 1.0, "sums/correct": 2.0, "sums/used_tool": 0.0}
        for task, total, parts in each["rows"]:
            name = task.partition("/")[0]
            assert {part.partition("/")[0] for part in parts} == {name}
            assert total == pytest.approx(parts[f"{name}/correct"] * {"divisors": 1, "sums": 2}[name])
        for name in ("divisors", "sums"):
            mine = [total for task, total, _ in each["rows"] if task.startswith(f"{name}/")]
            assert each["metrics"][f"environments/{name}/reward"] == pytest.approx(sum(mine) / len(mine))


def test_both_rewards_are_audited(found):
    passed, members, attacks = found["audit"]
    assert passed
    assert members == ["divisors", "sums"]
    assert {"divisors/gold", "sums/gold"} <= set(attacks)


def test_a_version_says_that_it_has_no_single_context(ran):
    home, _ = ran
    kept = home.query(CONTEXT)
    assert kept["context"]["tools"] == []
    assert "several environments (divisors, sums)" in kept["context"]["note"]
    assert [tool["function"]["name"] for tool in kept["context"]["members"]["sums"]["tools"]] == ["calculate"]
    assert "In sums: correct: paid with weight 2" in kept["card"]
    assert "on the tasks of the environments divisors, sums" in kept["card"]


def printed(home: Home, *arguments: str) -> dict:
    """What a command prints as JSON."""
    done = home.module("cli", *arguments, "--json")
    assert done.returncode in (0, 7), done.stdout + done.stderr
    return json.loads(done.stdout)


def test_its_attempts_are_scored_again_and_trained_on_again(ran):
    home, result = ran
    content = yaml.safe_load(SEVERAL.read_text())
    content["environments"]["sums"]["reward"] = {"weights": {"correct": 4.0}}
    (home.folder / "dearer.yaml").write_text(yaml.safe_dump(content))
    total = printed(home, "rescore", "several", "--config", "dearer.yaml", "--name", "dearer")["total"]
    # Only sums pay, twice as much as before: its attempts are a quarter, as it has 2 of 8 tasks in each round.
    before, after = total["before"], total["after"]
    correct = before["rewards/sums/correct"][0]
    assert after["rewards/sums/correct"] == before["rewards/sums/correct"]
    assert after["reward"][0] - before["reward"][0] == pytest.approx(2 * correct / 4)
    same = printed(home, "retrain", "several", "--from-round", "0", "--name", "same")
    assert same["final"]["accuracy"] == result.summary["final"]["accuracy"]
    assert [each["on_policy"] for each in same["off_policy"]] == [True, True]


def test_it_is_evaluated_decided_on_exported_and_told_of(ran):
    home, result = ran
    found = printed(home, "evaluate", "several:best", "--suite", str(SEVERAL))
    of_environments = found["scenarios"]["own"]["several-best"]["splits"]["test"]["slices"]["environment"]
    assert {name: each["accuracy"]["mean"] for name, each in of_environments.items()} == {
        name: pytest.approx(result.summary["final"][f"environments/{name}/accuracy"]) for name in ("divisors", "sums")
    }
    again = printed(home, "promote", "several", "--set", "promotion.min_improvement=0.001")
    assert (again["version"], again["look"]) == ("1", result.summary["promotion"]["look"] + 1)
    assert "environment=sums" in " ".join(again["reasons"])
    printed(home, "export", "several/1", "--to", "exported")
    assert json.loads((home.folder / "exported/context.json").read_text())["members"].keys() == {"divisors", "sums"}
    assert home.rlft("diagnose", "several").code == home.rlft("report", "several").code == 0


def test_the_same_again_comes_from_the_cache_and_another_reward_only_scores_again(ran):
    home, _ = ran
    again = home.rlft("run", str(SEVERAL), "--name", "again")
    steps = home.steps(again.summary["pipeline_run_id"])
    assert {steps[name]["status"] for name in ("generate_rollouts_r001", "train_grpo_r001")} == {"cached"}
    content = yaml.safe_load(SEVERAL.read_text())
    changed = copy.deepcopy(content)
    changed["environments"]["sums"]["reward"] = {"weights": {"correct": 3.0}}
    (home.folder / "changed.yaml").write_text(yaml.safe_dump(changed))
    other = home.rlft("run", "changed.yaml", "--name", "other", "--set", "training.rounds=1")
    steps = home.steps(other.summary["pipeline_run_id"])
    assert steps["generate_rollouts_r000"]["status"] == "cached"
    assert steps["score_rewards_r000"]["status"] == "completed"


def test_killed_and_resumed_it_ends_the_same(ran, make_home):
    whole, _ = ran
    home = make_home("several_killed")
    killed = home.rlft("run", str(SEVERAL), "--name", "several", kill_at="steps.round:score_rollouts:4")
    assert killed.code != 0
    resumed = home.rlft("resume", "several")
    assert resumed.code == 0, resumed.output
    assert json.loads(json.dumps(resumed.summary["final"])) == pytest.approx(ran[1].summary["final"])
    del whole


SAY = """
from mlflow import MlflowClient
from mlflow.entities import AssessmentSource, Feedback
from mlflow.tracing.client import TracingClient

plain = MlflowClient(tracking_uri=uri)
experiment = plain.get_experiment_by_name("several").experiment_id
asked = [trace for trace in plain.search_traces(locations=[experiment]) if "rlft.review" in trace.info.tags]
for trace in asked:
    person = AssessmentSource(source_type="HUMAN", source_id="ann")
    said = Feedback(name="deserved", value=0.5, source=person)
    TracingClient(uri).log_assessment(trace.info.trace_id, said)
print(json.dumps(sorted({trace.info.tags["rlft.task_id"].partition("/")[0] for trace in asked})))
"""


def test_its_attempts_are_reviewed_and_come_back_by_environment(ran):
    home, _ = ran
    asked = printed(home, "review", "several", "--highest", "4", "--random", "20")
    assert asked["added"] == asked["items"] == sum(asked["chosen"].values())
    assert home.query(SAY) == ["divisors", "sums"]
    found = printed(home, "review", "collect", "several", "--output", "said")
    assert found["opinions"] == asked["items"]
    for name, full in (("divisors", 1.0), ("sums", 2.0)):
        cases = yaml.safe_load((home.folder / "said" / name / "cases.yaml").read_text())["cases"]
        assert {case["task"].partition("/")[0] for case in cases} == {name}
        # A half of the full reward of each, give or take a tenth of it.
        assert {(case["at_least"], case["at_most"]) for case in cases} == {(0.4 * full, 0.6 * full)}
