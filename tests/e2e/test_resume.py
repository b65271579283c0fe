"""Killed anywhere and resumed: the same bytes as a run that was left alone, one MLflow run, whole curves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import TINY, Home

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]

# Where each process dies; what the one before it finished is not called again.
KILLS = (
    "steps.round:collect_rollouts:4",  # baseline, validation, r000, r001
    "steps.round:score_rollouts:1",  # r001
    "rlft.training.job:train_round:1",  # r001
    "steps.promotion:register_policy_version:1",
)


def last_policy(home, result):
    """The bytes of all files of the last policy, by name."""
    place = home.query(f"""
step = client.get_pipeline_run("{result.summary["pipeline_run_id"]}").steps["train_grpo_r002"]
print(json.dumps(step.outputs["policy"][0].uri))
""")
    folder = Path(place) / "policy"
    files = {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert {"tokenizer/tokenizer_config.json", "optimizer.safetensors", "policy.json"} < files.keys()
    return files


@pytest.fixture(scope="module")
def killed_once(make_home) -> Home:
    """The home of a run that was killed in its second round."""
    home = make_home("killed")
    killed = home.rlft("run", str(TINY), kill_at=KILLS[0])
    assert killed.code == -9, killed.output
    return home


def test_a_run_killed_four_times_ends_with_the_same_bytes(finished, killed_once, tmp_path):
    whole_home, whole = finished
    home = killed_once.copy(tmp_path)
    run_id = home.only_attempt()
    for kill in KILLS[1:]:
        killed = home.rlft("resume", run_id, kill_at=kill)
        assert killed.code == -9, killed.output
    resumed = home.rlft("resume", run_id)
    assert resumed.code == 0, resumed.output
    expected = whole_home.steps(whole.summary["pipeline_run_id"])
    found = home.steps(resumed.summary["pipeline_run_id"])
    for number in range(3):
        name = f"train_grpo_r{number:03d}"
        assert found[name]["weights"] == expected[name]["weights"]
        assert found[name]["outputs"]["policy"] == expected[name]["outputs"]["policy"]  # optimizer and tokenizer too
    assert last_policy(home, resumed) == last_policy(whole_home, whole)
    assert resumed.summary["final"] == whole.summary["final"]
    assert resumed.summary["ledger"] == whole.summary["ledger"]
    again = home.rlft("resume", run_id)  # the first name of a run whose resume has finished
    assert again.code == 2, again.output
    assert "has finished" in again.output
    repeated = home.query(f"""
first = {{s.name: s.status.value for s in client.list_run_steps(pipeline_run_id="{run_id}", size=1000)}}
second = {{s.name: s.status.value for s in client.list_run_steps(
    pipeline_run_id="{resumed.summary["pipeline_run_id"]}", size=1000)}}
done = [name for name, status in first.items() if status in ("completed", "cached")]
runs = mlflow_client.search_runs([mlflow_client.get_experiment_by_name("tiny").experiment_id])
steps = [m.step for m in mlflow_client.get_metric_history(runs[0].info.run_id, "reward")]
print(json.dumps([[second[name] for name in done], len(runs), steps, len(done)]))
""")
    statuses, mlflow_runs, steps, done = repeated
    assert done >= 5
    assert set(statuses) == {"skipped"}  # nothing that was finished is done again
    assert mlflow_runs == 1
    assert steps == [1, 2, 3]


def test_a_finished_run_is_not_resumed(finished):
    home, result = finished
    refused = home.rlft("resume", result.summary["pipeline_run_id"])
    assert refused.code == 2
    assert "has finished" in refused.output


OWN = """
from rlft.environments.reasoning_gym import ReasoningGym


class Own(ReasoningGym):
    async def compute_reward(self, completion, ground_truth):
        parts = await super().compute_reward(completion, ground_truth)
        return {"right": PAID * parts["correct"]}


PAID = 1.0
"""


def test_a_run_whose_reward_was_edited_is_not_resumed_and_can_be_registered(make_home):
    home = make_home("edited")
    code = home.folder / "own.py"
    code.write_text(OWN)
    short = ("training.rounds=1", "warm_start.steps=20", "controls=[]", "environment.name=own.py:Own")
    settings = [word for setting in short for word in ("--set", setting)]
    killed = home.rlft("run", str(TINY), "--name", "own", *settings, kill_at="rlft.training.job:train_round:1")
    assert killed.code == -9, killed.output
    edited = OWN.replace("PAID = 1.0", "PAID = 0.5")
    code.write_text(edited)
    refused = home.rlft("resume", "own")
    assert refused.code == 2, refused.output
    said = " ".join(refused.output.split())
    assert "has changed since this run began" in said, said
    assert "put the code back as it was, then resume; or begin a new run with `rlft run`" in said
    code.write_text(OWN)
    killed = home.rlft("resume", "own", kill_at="steps.promotion:register_policy_version:1")
    assert killed.code == -9, killed.output
    code.write_text(edited)
    registered = home.module("cli", "promote", "own", "--json")
    assert registered.returncode in (0, 7), registered.stderr
    assert json.loads(registered.stdout)["version"] == "1"
