"""What goes wrong in the middle: rewards that fail, models that do not load, hopeless tasks."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import TINY

pytestmark = pytest.mark.timeout(1200)

FLAKY = """
import rlft

class Flaky(rlft.BaseEnv):
    async def compute_reward(self, completion, ground_truth):
        if ground_truth in ("2", "4"):
            raise RuntimeError("the judge is down")
        if ground_truth in ("3", "5"):
            return {"correct": float("nan")}
        return {"correct": float(completion.text.strip() == ground_truth)}
"""


@pytest.mark.slow
def test_a_reward_that_fails_is_an_error_in_the_ledger_and_never_a_zero(make_home):
    home = make_home("flaky")
    (home.folder / "flaky.py").write_text(FLAKY)
    options = ["--set", "environment.name=flaky.py:Flaky", "--set", "reward.audit=false", "--set", "training.rounds=1"]
    result = home.rlft("run", str(TINY), *options, "--set", "controls=[]")
    assert result.code == 0, result.output
    wrong = home.query(f"""
run = client.get_pipeline_run("{result.summary["pipeline_run_id"]}")
tasks = run.steps["ingest_tasks"].outputs["tasks"][0].load().by_id()
rewards = run.steps["score_rewards_r000"].outputs["rewards"][0].load()
fates = run.steps["train_grpo_r000"].outputs["train_report"][0].load().fates
print(json.dumps([[tasks[r.task_id].answer, r.total, str(r.error), fates[r.rollout_id]] for r in rewards]))
""")
    failed = [row for row in wrong if row[0] in ("2", "3", "4", "5")]
    assert len(failed) == result.summary["ledger"]["errored"] > 0
    for right, total, error, fate in failed:
        assert total is None
        assert ("the judge is down" if right in ("2", "4") else "nan") in error
        assert fate == "errored:reward"
    assert all(total is not None for right, total, _, _ in wrong if right not in ("2", "3", "4", "5"))


LEAVING = """
import os
import rlft

class Leaving(rlft.BaseEnv):
    async def compute_reward(self, completion, ground_truth):
        if os.environ.get("LEAVES") and ground_truth in ("2", "3") and "1" in completion.text:
            os.chdir("/")
            os._exit(0)
        return {"correct": float(completion.text.strip() == ground_truth)}
"""


@pytest.mark.slow
def test_a_reward_that_ends_the_process_never_looks_finished_and_costs_one_rollout_in_a_worker(make_home, monkeypatch):
    home = make_home("leaving")
    (home.folder / "leaving.py").write_text(LEAVING)
    options = ["--set", "environment.name=leaving.py:Leaving", "--set", "reward.audit=false"]
    options += ["--set", "training.rounds=1", "--set", "controls=[]"]
    monkeypatch.setenv("LEAVES", "yes")
    home.python("-m", "cli", "run", str(TINY), *options, "--name", "leaves", "--summary", "s.json")
    assert not (home.folder / "s.json").exists()  # whatever its exit code is
    left = home.folder / ".rlft/runs/leaves"
    table = json.loads((left / "artifacts.json").read_text())  # what was stored is found without ZenML
    assert {"ingest_tasks", "initialize_policy"} <= set(table["steps"])
    assert json.loads((left / "summary.json").read_text())["status"] == "running"
    assert [run["status"] for run in json.loads(home.module("cli", "runs", "--json").stdout)] == ["killed"]
    apart = ["--set", "reward.isolation=process", "--summary", "s.json"]
    finished = home.module("cli", "run", str(TINY), *options, *apart)
    assert finished.returncode == 0, finished.stderr
    summary = json.loads((home.folder / "s.json").read_text())
    assert summary["status"] in ("improved", "not_improved")
    assert summary["ledger"]["errored"] > 0


@pytest.mark.slow
def test_an_audit_that_fails_stops_the_run_before_training(make_home):
    home = make_home("audit")
    (home.folder / "generous.py").write_text(
        "import rlft\n\nclass Generous(rlft.BaseEnv):\n"
        "    async def compute_reward(self, completion, ground_truth):\n        return {'kind': 1.0}\n"
    )
    result = home.rlft("run", str(TINY), "--set", "environment.name=generous.py:Generous", "--name", "too kind")
    assert result.code == 2
    assert "the reward pays wrong answers" in result.output
    assert "Traceback" not in result.output
    assert result.summary["status"] == "failed"
    assert result.summary["rounds"] == 0


@pytest.mark.slow
def test_a_model_that_does_not_load_is_named(make_home):
    home = make_home("model")
    result = home.rlft("run", str(TINY), "--set", "policy={model: no/such-model}")
    assert result.code == 2
    assert "no/such-model" in result.output
    assert "Traceback" not in result.output


@pytest.mark.slow
def test_tasks_that_no_sample_solves_end_too_hard_and_those_that_do_not_fit_are_left_out(make_home):
    home = make_home("hard")
    # Random weights do not hit upon a number of four digits by chance. Six and seven digits make a prompt of 18 tokens.
    changes = (
        "tasks.generator=chain_sum",
        "tasks.generator_kwargs={min_terms: 2, max_terms: 2, min_digits: 4, max_digits: 7}",
        "tasks.prompt='{metadata[expression]} ='",
        "policy.from_scratch.characters='0123456789+-=, '",
        "policy.from_scratch.max_position_embeddings=18",
        "warm_start=null",
    )
    result = home.rlft("run", str(TINY), *(part for each in changes for part in ("--set", each)))
    assert result.code == 3, result.output
    assert result.summary["status"] == "too_hard"
    assert result.summary["promotion"]["promoted"] is False
    assert result.summary["baseline"]["accuracy"] == 0
    assert home.query("print(json.dumps(len(mlflow_client.search_model_versions())))") == 0
    lengths, kept, errors = home.query(f"""
run = client.get_pipeline_run("{result.summary["pipeline_run_id"]}")
tasks, fitting = (run.steps[f"{{name}}_tasks"].outputs["tasks"][0].load() for name in ("ingest", "leave_out"))
rollouts = run.steps["generate_rollouts_baseline"].outputs["rollouts"][0].load()
lengths = [[len(task.prompt[0]["content"]) for task in each.tasks] for each in (tasks, fitting)]
print(json.dumps([*lengths, [row.error for row in rollouts.rows if row.error]]))
""")
    assert kept == [length for length in lengths if length < 18]
    assert errors == []
    assert f"{len(lengths) - len(kept)} of {len(lengths)} tasks are left out" in " ".join(result.output.split())


@pytest.mark.slow
def test_a_task_that_is_solved_ends_already_solved(make_home):
    home = make_home("solved")
    result = home.rlft("run", str(TINY), "--set", "baseline.already_solved=0.001")
    assert result.code == 4, result.output
    assert result.summary["status"] == "already_solved"


@pytest.mark.slow
def test_numbers_that_explode_stop_training_with_the_last_good_policy(make_home):
    home = make_home("explode")
    options = ["--set", "training.learning_rate=1000.0", "--set", "training.updates_per_round=1"]
    result = home.rlft("run", str(TINY), *options, "--set", "controls=[]")
    assert result.code == 0, result.output
    assert result.summary["status"] == "not_improved"
    assert "round 0" in result.summary["stopped"]
    assert result.summary["ledger"]["trained"] == 0
    assert result.summary["final"] == result.summary["warm_start"]
