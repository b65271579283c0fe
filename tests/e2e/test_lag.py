"""`training.lag: 1` in whole runs: who sampled what, what the ledger says, and the same bytes after a kill."""

from __future__ import annotations

import json
import re

import pytest

from mlops.home.folder import Home as Folder
from mlops.runs.listing import list_runs
from tests.e2e.conftest import ROOT, TINY

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow, pytest.mark.long]

SEVERAL = ROOT / "tests" / "fixtures" / "configs" / "several.yaml"
LAGGED = ("run", str(TINY), "--set", "training.lag=1", "--set", "controls=[]")
# Of each round: the weights that its rollouts and its report tell of, and those that it was trained from and to.
ROUNDS = """
run = client.get_pipeline_run("{run_id}")
def weights(name):
    step = client.get_run_step(run.steps[name].id)
    return step.outputs["policy"][0].run_metadata["weights_hash"]
rounds = []
for number in range(3):
    rollouts = run.steps[f"generate_rollouts_r{{number:03d}}"].outputs["rollouts"][0].load()
    report = run.steps[f"train_grpo_r{{number:03d}}"].outputs["train_report"][0].load()
    rounds.append([sorted({{row.policy for row in rollouts}}), weights(f"train_grpo_r{{number:03d}}"), report.age,
        report.metrics["sampling/mean_weight"], len(report.fates)])
print(json.dumps([weights("warm_start"), rounds]))
"""


def rounds_of(home, run_id):
    return home.query(ROUNDS.format(run_id=run_id))


@pytest.fixture(scope="module")
def lagged(make_home):
    home = make_home("lagged")
    result = home.rlft(*LAGGED)
    assert result.code == 0, result.output
    return home, result


def test_every_round_but_the_first_is_sampled_by_the_policy_of_one_round_before(lagged, finished):
    home, result = lagged
    start, rounds = rounds_of(home, result.summary["pipeline_run_id"])
    first, second, _ = (trained for _, trained, *_ in rounds)
    assert [sampled for sampled, *_ in rounds] == [[start], [start], [first]]
    assert len({start, first, second}) == 3
    assert [age for _, _, age, *_ in rounds] == [0, 1, 1]
    on, *off = (weight for *_, weight, _ in rounds)
    assert on == pytest.approx(1, abs=1e-6)
    assert all(abs(weight - 1) > 1e-4 for weight in off)
    assert result.summary["ledger"]["ages"] == {"0": 32, "1": 64}
    shown = home.rlft("show", result.summary["pipeline_run_id"], "2", "0", "--json")
    assert json.loads(shown.output[shown.output.index("{") :])["age"] == 1
    # The first round is that of a run without lag, to the last byte.
    whole_home, whole = finished
    assert first == whole_home.steps(whole.summary["pipeline_run_id"])["train_grpo_r000"]["weights"]


@pytest.mark.parametrize("kill", ["rlft.training.job:train_round:2", "steps.round:score_rollouts:5"])
def test_a_run_that_is_killed_while_it_trains_and_samples_ends_with_the_same_bytes(lagged, make_home, kill):
    whole_home, whole = lagged
    home = make_home(f"lagged_{kill.rpartition(':')[0].rpartition(':')[2]}")
    killed = home.rlft(*LAGGED, kill_at=kill)
    assert killed.code == -9, killed.output
    run_id = home.only_attempt()
    resumed = home.rlft("resume", run_id)
    assert resumed.code == 0, resumed.output
    expected, found = whole_home.steps(whole.summary["pipeline_run_id"]), home.steps(resumed.summary["pipeline_run_id"])
    for number in range(3):
        name = f"train_grpo_r{number:03d}"
        assert found[name]["outputs"]["policy"] == expected[name]["outputs"]["policy"]  # weights, optimizer, tokenizer
    assert rounds_of(home, resumed.summary["pipeline_run_id"]) == rounds_of(
        whole_home, whole.summary["pipeline_run_id"]
    )
    for key in ("final", "ledger"):
        assert resumed.summary[key] == whole.summary[key]


MLFLOW_RUNS = """
found = mlflow_client.search_runs([mlflow_client.get_experiment_by_name("tiny").experiment_id])
print(json.dumps(sorted([run.info.run_name, run.info.status] for run in found)))
"""


@pytest.mark.parametrize("kill", ["-", "rlft.training.job:train_round:1"])
def test_a_run_whose_first_round_has_lost_its_weights_trains_it_again_and_is_one_run(lagged, finished, tmp_path, kill):
    whole_home, whole = lagged
    earlier, before = finished
    home = earlier.copy(tmp_path)
    done = home.rlft(*LAGGED, "--name", "x", kill_at=kill)
    assert "the weights of round 1 were removed by policy.keep; they are trained again" in " ".join(done.output.split())
    if kill != "-":  # before the first round is trained again: the first attempt has finished more steps
        assert done.code == -9, done.output
        done = home.rlft("resume", "x")
    assert done.code == 0, done.output
    expected, found = whole_home.steps(whole.summary["pipeline_run_id"]), home.steps(done.summary["pipeline_run_id"])
    for number in range(3):
        name = f"train_grpo_r{number:03d}"
        assert found[name]["outputs"]["policy"] == expected[name]["outputs"]["policy"]
    assert done.summary["final"] == whole.summary["final"]
    name = home.query(f"print(json.dumps(client.get_pipeline_run('{before.summary['pipeline_run_id']}').name))")
    assert home.query(MLFLOW_RUNS) == sorted([[name, "FINISHED"], ["x", "FINISHED"]])
    assert [(run.name, run.status) for run in list_runs(Folder(home.folder / ".rlft")).runs] == [
        ("x", whole.summary["status"]),
        (name, before.summary["status"]),
    ]


def test_training_again_on_its_rounds_comes_to_the_same_weights(lagged):
    home, result = lagged
    again = home.rlft("retrain", result.summary["pipeline_run_id"], "--from-round", "0")
    assert again.code == 0, again.output
    weights = home.query("""
runs = client.list_pipeline_runs(sort_by="desc:created")
step = client.get_run_step(runs[0].steps["train_grpo_r002"].id)
print(json.dumps(step.outputs["policy"][0].run_metadata["weights_hash"]))
""")
    assert weights == rounds_of(home, result.summary["pipeline_run_id"])[1][2][1]


def test_rounds_that_another_policy_sampled_are_no_lagged_ones_when_they_are_trained_on_again(lagged):
    home, result = lagged
    source = result.summary["pipeline_run_id"]
    done = home.module("cli", "retrain", source, "--from-round", "0", "--set", "training.learning_rate=2e-3", "--json")
    assert done.returncode == 0, done.stderr
    again = json.loads(done.stdout)
    # Rounds 0 and 1 were sampled by the policy that both begin with, round 2 by what the run had made of it.
    assert [each["on_policy"] for each in again["off_policy"]] == [True, True, False]
    assert [each["age"] for each in again["off_policy"]] == [0, 1, 0]
    assert again["correction"] == "sequence_truncate"
    told = home.query("""
run = client.list_pipeline_runs(sort_by="desc:created")[0]
given = [client.get_run_step(run.steps[f"train_grpo_r{n:03d}"].id).config.parameters for n in range(3)]
print(json.dumps([[each["round"]["age"], each["training"]["importance_sampling_correction"]] for each in given]))
""")
    assert told == [[0, None], [1, None], [0, "sequence_truncate"]]
    refused = home.rlft("retrain", source, "--from-round", "0", "--set", "training.lag=0")
    assert refused.code == 2, refused.output
    assert "were sampled with a lag of 1" in " ".join(refused.output.split())


def test_rollouts_that_nobody_trained_on_stay_on_record(lagged):
    home, _ = lagged
    # A round samples at least 32 tokens, so that no third fits; round 1 is sampled before anybody knows that.
    ended = home.rlft(*LAGGED, "--set", "budget.tokens=40")
    assert ended.code == 0, ended.output
    spent, ahead = re.match(r"budget: (\d+) of 40 tokens are spent, (\d+) of them", ended.summary["stopped"]).groups()
    assert int(ahead) >= 32 <= int(spent) - int(ahead)  # each of 32 rollouts has one
    assert ended.summary["rounds"] == 1
    ledger = ended.summary["ledger"]
    assert ledger["sampled"] == 64 == ledger["trained"] + ledger["filtered"] + ledger["errored"]
    assert ledger["ages"] == {"0": 32}
    shown = home.rlft("show", ended.summary["pipeline_run_id"], "1", "0", "--json")
    record = json.loads(shown.output[shown.output.index("{") :])
    assert (record["fate"], record["age"]) == ("filtered:training_ended", 1)
    again = home.rlft("retrain", ended.summary["pipeline_run_id"], "--from-round", "1")
    assert again.code == 2, again.output
    assert "has no round 1" in again.output


def test_a_run_that_reads_its_reference_while_it_samples_ends_with_the_same_bytes_after_a_kill(make_home):
    settings = ("--set", "training.beta=0.05")
    homes = [make_home(name) for name in ("lagged_kl", "lagged_kl_killed")]
    whole = homes[0].rlft(*LAGGED, *settings)
    assert whole.code == 0, whole.output
    killed = homes[1].rlft(*LAGGED, *settings, "--name", "cut", kill_at="rlft.training.job:train_round:2")
    assert killed.code == -9, killed.output
    resumed = homes[1].rlft("resume", "cut")
    assert resumed.code == 0, resumed.output
    expected, found = (
        home.steps(result.summary["pipeline_run_id"]) for home, result in zip(homes, (whole, resumed), strict=True)
    )
    for number in range(3):
        name = f"train_grpo_r{number:03d}"
        assert found[name]["outputs"]["policy"] == expected[name]["outputs"]["policy"]
    assert resumed.summary["final"] == whole.summary["final"]


BY_RATES = ("training.curriculum=pass_rate", "training.max_num_gen_batches=3")


def test_tasks_are_drawn_by_pass_rates_as_ever_also_after_a_kill(finished, tmp_path):
    earlier, _ = finished
    homes = [earlier.copy(tmp_path / name) for name in ("whole", "killed")]
    settings = [word for each in BY_RATES for word in ("--set", each)]
    whole = homes[0].rlft(*LAGGED, *settings)
    assert whole.code == 0, whole.output
    killed = homes[1].rlft(*LAGGED, *settings, "--name", "cut", kill_at="rlft.training.job:train_round:2")
    assert killed.code == -9, killed.output
    resumed = homes[1].rlft("resume", "cut")
    assert resumed.code == 0, resumed.output
    expected, found = (
        home.steps(result.summary["pipeline_run_id"]) for home, result in zip(homes, (whole, resumed), strict=True)
    )
    for number in range(3):
        for step, output in (("draw_tasks", "draw"), ("train_grpo", "policy")):
            name = f"{step}_r{number:03d}"
            assert found[name]["outputs"][output] == expected[name]["outputs"][output], name
    for key in ("final", "ledger", "dynamic_sampling"):
        assert resumed.summary[key] == whole.summary[key]
    ledger = whole.summary["ledger"]
    assert sum(ledger["ages"].values()) == ledger["sampled"] == ledger["trained"] + ledger["filtered"]
    assert ledger["ages"]["1"] > 64  # groups without variance were replaced in the rounds that were sampled ahead


def test_several_environments_are_sampled_ahead(make_home):
    home = make_home("several_lagged")
    result = home.rlft("run", str(SEVERAL), "--set", "training.lag=1", "--set", "controls=[]")
    assert result.code == 0, result.output
    assert result.summary["ledger"]["ages"] == {"0": 32, "1": 32}


def test_sampling_that_fails_does_not_cost_the_round_that_is_trained_beside_it(make_home):
    home = make_home("fails")
    failed = home.rlft(
        *LAGGED,
        "--name",
        "x",
        "--set",
        "training.num_iterations=30",
        kill_at="steps.round:collect_rollouts:4=fail=it is of no use",
    )
    assert failed.code == 1, failed.output
    assert "it is of no use" in failed.output
    assert "rlft resume x" in failed.output
    assert "the round before it is trained to its end" in " ".join(failed.output.split())
    [run_id] = home.query("print(json.dumps([str(run.id) for run in client.list_pipeline_runs()]))")
    steps = home.steps(run_id)
    assert [steps[name]["status"] for name in ("generate_rollouts_r001", "train_grpo_r000")] == ["failed", "completed"]
    noted = json.loads((home.folder / ".rlft" / "runs" / "x" / "artifacts.json").read_text())
    assert "train_grpo_r000" in noted["steps"]  # the run is ended after it, not before
    resumed = home.rlft("resume", "x")
    assert resumed.code == 0, resumed.output
    again = home.steps(resumed.summary["pipeline_run_id"])["train_grpo_r000"]
    assert (again["status"], again["weights"]) == ("skipped", steps["train_grpo_r000"]["weights"])
