"""Stored attempts of a real run, scored by another reward and trained on otherwise, as a user does it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import TINY, Home

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow, pytest.mark.long]

STRICT = """
from rlft.environments.reasoning_gym import ReasoningGym


class Strict(ReasoningGym):
    async def compute_reward(self, completion, ground_truth):
        parts = await super().compute_reward(completion, ground_truth)
        return {"wrong": 1.0 - parts["correct"]}


class Greeting(ReasoningGym):
    system_prompt = "1"


"""
OTHER = ("--set", "training.loss_type=dr_grpo", "--set", "training.learning_rate=3e-3")


def printed(home: Home, *arguments: str, code: int = 0):
    """What a command prints as JSON."""
    done = home.module("cli", *arguments, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def refused(home: Home, *arguments: str, code: int = 2) -> str:
    """What a command says that ends with this exit code, in one line."""
    done = home.module("cli", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    return " ".join(done.stderr.split())


@pytest.fixture(scope="module")
def home(finished, tmp_path_factory) -> Home:
    """A copy of the home of a whole run, with configs of other rewards."""
    made = finished[0].copy(tmp_path_factory.mktemp("replayed"))
    (made.folder / "strict.py").write_text(STRICT)
    tiny = yaml.safe_load(TINY.read_text())
    for name in ("Strict", "Greeting"):
        content = tiny | {"environment": {"name": f"strict.py:{name}"}}
        (made.folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return made


@pytest.fixture(scope="module")
def source(finished) -> str:
    return finished[1].summary["pipeline_run_id"]


@pytest.fixture(scope="module")
def retrained(home, source):
    """Other training that was killed in its second round, and the same command again: its summary."""
    command = ["retrain", source, "--from-round", "0", *OTHER, "--name", "other"]
    killed = home.rlft(*command, kill_at="rlft.training.job:train_round:2")
    assert killed.code == -9, killed.output
    [cut] = [run for run in json.loads(home.module("cli", "runs", "--json").stdout) if run["name"] == "other"]
    # The tests' own program began it, so that its command is not known.
    assert (cut["status"], cut["again"]) == ("interrupted", None)
    assert "other was interrupted; giving its command again goes on with it" in home.module("cli", "runs").stdout
    return printed(home, *command)


def test_without_a_change_the_same_policies_come_from_the_cache(home, source):
    found = printed(home, "retrain", source, "--from-round", "0", "--name", "same")
    steps, expected = home.steps(found["pipeline_run_id"]), home.steps(source)
    trained = [f"train_grpo_r{number:03d}" for number in range(3)]
    assert [steps[name]["status"] for name in trained] == ["cached"] * 3
    assert [steps[name]["weights"] for name in trained] == [expected[name]["weights"] for name in trained]
    assert [each["on_policy"] for each in found["off_policy"]] == [True] * 3
    assert found["changes"] == {}
    assert found["final"] == found["source_final"]
    assert (found["difference"]["mean"], "would have done itself" in found["notes"][0]) == (0.0, True)
    assert [each["retrained"] for each in found["validation"]] == [each["source"] for each in found["validation"]]


def test_other_training_on_the_same_attempts(home, source, retrained):
    steps, expected = home.steps(retrained["pipeline_run_id"]), home.steps(source)
    assert steps["train_grpo_r000"]["status"] == "cached"  # of the attempt that was killed
    assert not [name for name in steps if name.startswith("generate_rollouts_r0")]  # no attempts for training
    assert steps["train_grpo_r002"]["weights"] not in (None, expected["train_grpo_r002"]["weights"])
    assert retrained["changes"] == {
        "training.loss_type": ["dapo", "dr_grpo"],
        "training.learning_rate": [0.001, 0.003],
    }
    assert (retrained["status"], retrained["rounds"], retrained["correction"]) == ("finished", 3, "sequence_truncate")
    first, second, third = retrained["off_policy"]
    assert (first["on_policy"], second["on_policy"], third["on_policy"]) == (True, False, False)
    assert first["effective_sample_ratio"] == pytest.approx(1, abs=1e-6)
    assert all(0 < each["effective_sample_ratio"] < 0.999 for each in (second, third))
    assert retrained["ledger"]["sampled"] == 96  # 3 rounds of 8 tasks with 4 attempts, as the run sampled them
    assert "says nothing on exploration" in retrained["notes"][0]
    assert [each["rounds"] for each in retrained["validation"]] == [0, 2, 3]


def test_rounds_of_another_policy_are_trained_on_with_the_correction(home, retrained):
    given = home.query(f"""
found = {{}}
for number in range(3):
    [step] = client.list_run_steps(
        pipeline_run_id="{retrained["pipeline_run_id"]}", name=f"train_grpo_r{{number:03d}}", size=1
    )
    training = client.get_run_step(step.id).config.parameters["training"]
    found[number] = training["importance_sampling_correction"]
print(json.dumps(found))
""")
    assert given == {"0": None, "1": "sequence_truncate", "2": "sequence_truncate"}


def test_a_retraining_names_the_run_that_it_is_made_from(home, source, retrained):
    read = home.query(f"""
run = client.get_pipeline_run("{retrained["pipeline_run_id"]}")
mlflow_run = mlflow_client.get_run("{retrained["mlflow_run_id"]}")
history = mlflow_client.get_metric_history(mlflow_run.info.run_id, "sampling/effective_sample_ratio")
print(json.dumps({{
    "tags": [tag.name for tag in run.tags], "noted": run.run_metadata, "mlflow": mlflow_run.data.tags,
    "steps": [each.step for each in history], "metrics": mlflow_run.data.metrics,
}}))
""")
    name, mlflow_run = retrained["source"], retrained["source_mlflow_run_id"]
    assert f"replay_of={name}" in read["tags"]
    assert read["noted"]["replay_of"] == name
    assert read["noted"]["mlflow_run_id"] == retrained["mlflow_run_id"]
    assert read["mlflow"]["rlft.replay_of"] == name
    assert read["mlflow"]["rlft.replay_of.mlflow_run_id"] == mlflow_run
    assert f"/runs/{mlflow_run})" in read["mlflow"]["mlflow.note.content"]
    assert read["steps"] == [1, 2, 3]
    assert read["metrics"]["0_result/after"] == pytest.approx(retrained["final"]["accuracy"])
    listed = {run["name"]: run["kind"] for run in json.loads(home.module("cli", "runs", "--json").stdout)}
    assert (listed["other"], listed[name]) == ("retrain", "training")


def test_a_replay_that_has_finished_keeps_its_name(home, source, retrained):
    [run] = [run for run in json.loads(home.module("cli", "runs", "--json").stdout) if run["name"] == "other"]
    assert (run["status"], run["again"], len(run["attempts"])) == ("finished", None, 2)
    said = refused(home, "retrain", source, "--from-round", "0", *OTHER, "--name", "other")
    assert "a run is called 'other' already" in said
    assert "the command that it was begun with goes on with it if it was cut short" in said


def test_a_retraining_is_compared_with_its_run(home, source, retrained):
    found = printed(home, "compare", source, "other")
    name = retrained["source"]
    assert found["settings"]["training.loss_type"] == {name: "dapo", "other": "dr_grpo"}
    replay = {key: found["settings"][f"replay.{key}"]["other"] for key in ("kind", "of", "from_round", "correction")}
    assert replay == {"kind": "retrain", "of": name, "from_round": 0, "correction": "sequence_truncate"}
    assert (found["tasks"], found["data"]) == (12, {})
    assert found["runs"]["other"]["accuracy"] == pytest.approx(retrained["final"]["accuracy"])
    assert found["groups"] == [[name], ["other"]]


def test_a_replay_is_no_run_to_go_on_with_or_to_replay(home, retrained):
    assert "give its `rlft retrain` command again" in refused(home, "resume", "other")
    assert f"name the run that it was made from, {retrained['source']}" in refused(
        home, "retrain", "other", "--from-round", "0"
    )
    assert "other is a retraining" in refused(home, "diagnose", "other")


def test_another_reward_on_the_same_attempts(home, source):
    found = printed(home, "rescore", source, "--config", "Strict.yaml", "--name", "wrong", code=2)
    total = found["total"]
    # What was worth 1 is worth 0 and the other way round: in each group with both, every such pair is turned round.
    assert total["attempts"] == 96
    assert (total["pairs"]["tied"], total["pairs"]["parted"]) == (0, 0)
    assert total["pairs"]["reversed"] > 0
    assert total["reordered"] == total["varying_before"] == total["varying_after"]
    assert total["after"]["rewards/wrong"][0] == pytest.approx(1 - total["before"]["rewards/correct"][0])
    assert sorted(found["rounds"]) == ["0", "1", "2"]
    assert (found["audit_before"]["passed"], found["audit"]["passed"]) == (True, False)  # so the exit code is 2
    gain = found["gain"]
    assert gain["after"]["mean"] == pytest.approx(-gain["before"]["mean"])
    steps = home.steps(found["pipeline_run_id"])
    assert not [name for name in steps if name.startswith("generate_rollouts")]  # nothing is sampled
    shown = json.loads(home.module("cli", "show", "wrong", "1", "--json").stdout)
    assert len(shown) == 32
    compared = printed(home, "compare", source, "wrong")
    [pair] = compared["pairs"]
    assert (pair["stands"], "different rewards scored them" in pair["obstacle"]) == (False, True)


def test_the_reward_of_the_run_changes_nothing(home, source):
    found = printed(home, "rescore", source, "--config", str(TINY), "--round", "1")
    assert list(found["rounds"]) == ["1"]
    assert (found["total"]["reordered"], found["total"]["before"]) == (0, found["total"]["after"])
    assert "nothing should differ" in " ".join(found["notes"])
    assert home.steps(found["pipeline_run_id"])["score_rewards_r001"]["status"] == "cached"


def test_attempts_at_tasks_that_are_gone_are_left_out(home, source):
    # The items of 2 numbers up to 19 are others, but for those that both have: their questions are the same.
    tiny = yaml.safe_load(TINY.read_text())
    tiny["tasks"]["generator_kwargs"]["max_value"] = 19
    tiny["tasks"]["splits"] = {"train": 150, "validation": 12, "gate": 12, "test": 12}
    (home.folder / "fewer.yaml").write_text(yaml.safe_dump(tiny))
    found = printed(home, "rescore", source, "--config", "fewer.yaml", "--name", "fewer")
    assert 0 < found["total"]["attempts"] < 96
    assert f"{found['left_out']} attempts were left out" in " ".join(found["notes"])
    assert found["total"]["reordered"] == 0


def test_a_retraining_that_needs_weights_which_were_removed_is_one_run_with_them(finished, tmp_path):
    earlier, whole = finished
    home = earlier.copy(tmp_path)
    # As after an update that has changed how attempts are sampled: the validation is not in the cache any more.
    home.query("""
[step] = client.list_run_steps(name="generate_rollouts_validation_r002")
client.update_step_run(step.id, cache_expires_at=step.created)
print("null")
""")
    done = home.module("cli", "retrain", whole.summary["pipeline_run_id"], "--from-round", "0", "--name", "again")
    assert done.returncode == 0, done.stderr
    assert "the weights of round 2 were removed by policy.keep; they are trained again" in " ".join(done.stderr.split())
    statuses = home.query("""
found = mlflow_client.search_runs([mlflow_client.get_experiment_by_name("tiny").experiment_id])
runs = client.list_pipeline_runs(pipeline="retrain")
named = {run.info.run_name: [run.info.status, run.data.tags["zenml.run_id"]] for run in found}
print(json.dumps([len(found), named["again"], [[run.status.value, str(run.id)] for run in runs]]))
""")
    number, (status, of_run), runs = statuses
    assert (number, status) == (2, "FINISHED")
    assert sorted(status for status, _ in runs) == ["completed", "failed"]
    assert dict(runs)["completed"] == of_run


def test_what_cannot_be_replayed_is_told_before_a_run_is_recorded(home, source, finished):
    before = len(json.loads(home.module("cli", "runs", "--json").stdout))
    assert "has no round 3: its rounds are 0 to 2" in refused(home, "retrain", source, "--from-round", "3")
    # After one round nothing is validated, so that this policy is neither the best nor the last.
    said = refused(home, "retrain", source, "--from-round", "1", *OTHER)
    assert "weights of this policy were removed by policy.keep" in said
    said = refused(home, "retrain", source, "--from-round", "0", "--set", "training.tasks_per_round=2")
    assert "the attempts are those that the run has stored" in said
    assert "is no setting of training" in refused(home, "retrain", source, "--from-round", "0", "--set", "seed=1")
    assert "has no round 9" in refused(home, "rescore", source, "--config", "Strict.yaml", "--round", "9")
    assert "begins a conversation with system, user" in refused(home, "rescore", source, "--config", "Greeting.yaml")
    assert "no run is called 'absent'" in refused(home, "rescore", "absent", "--config", "Strict.yaml")
    assert len(json.loads(home.module("cli", "runs", "--json").stdout)) == before


def test_attempts_whose_files_are_gone_are_named_with_the_command_that_makes_them_again(finished, tmp_path):
    home, source = finished[0].copy(tmp_path), finished[1].summary["pipeline_run_id"]
    (folder,) = home.query(f"""
[step] = client.list_run_steps(pipeline_run_id="{source}", name="generate_rollouts_r001", size=1)
print(json.dumps([client.get_run_step(step.id).outputs["rollouts"][0].uri]))
""")
    shutil.rmtree(Path(folder))
    said = refused(home, "retrain", source, "--from-round", "0", code=1)
    assert "this file is gone" in said
    assert "makes it again (generate_rollouts_r001)" in said
