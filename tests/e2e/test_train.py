"""The whole pipeline on a config of seconds: the summary, and everything that it says, found again in the stores."""

from __future__ import annotations

import json

import pytest

from mlops.summary.summary import Summary
from tests.e2e.conftest import TINY

pytestmark = pytest.mark.timeout(1200)


def test_the_summary_keeps_its_contract(finished):
    _, result = finished
    assert Summary.model_validate(result.summary).model_dump() == result.summary
    assert result.summary["status"] in ("improved", "not_improved")
    assert result.summary["rounds"] == 3
    for arm in ("base", "warm_start", "final"):
        assert {"accuracy", "reward", "gate/accuracy", "off_distribution/accuracy"} <= set(result.summary[arm])
    assert result.summary["pass_at_k"] is None  # the config does not ask for it
    difference = result.summary["difference"]
    assert set(difference) == {
        "metric", "before", "after", "mean", "ci_low", "ci_high", "tasks", "groups", "errors", "ci_low_errors",
        "ci_high_errors", "without_score", "declared",
    }  # fmt: skip
    for split, found in result.summary["contamination"].items():  # a prompt is in one split alone, and these are short
        assert (found["tasks"], found["exact"], found["overlapping"]) == (12, 0, 0), split
        metric = "accuracy" if split == "test" else f"{split}/accuracy"
        assert found["clean"]["mean"] == pytest.approx(result.summary["final"][metric])
    assert result.summary["contamination"]["test"]["clean_difference"]["mean"] == pytest.approx(difference["mean"])
    assert result.summary["forgetting"] == {}
    assert "random weights" in result.summary["forgetting_sentences"][0]
    assert (difference["tasks"], difference["errors"], difference["ci_low_errors"]) == (12, 0, difference["ci_low"])
    assert difference["ci_low"] <= difference["mean"] <= difference["ci_high"]
    assert set(result.summary["controls"]) == set(result.summary["difference_controls"]) == {"sft", "constant"}
    constant = result.summary["controls"]["constant"]
    assert {"accuracy", "reward", "gate/accuracy", "off_distribution/accuracy"} <= set(constant)
    against = result.summary["difference_controls"]["constant"]
    assert against["mean"] == pytest.approx(result.summary["final"]["accuracy"] - constant["accuracy"])
    assert isinstance(result.summary["constant_answer"], str)
    assert (result.summary["promotion"]["look"], result.summary["promotion"]["looks"]) == (1, 20)
    # paired on the same 12 test tasks: the mean difference is the difference of the means
    expected = result.summary["final"]["accuracy"] - result.summary["warm_start"]["accuracy"]
    assert difference["mean"] == pytest.approx(expected)
    assert all(result.summary["seconds"][key] > 0 for key in ("setup", "warm_start", "rollout", "train", "total"))


def test_the_look_at_the_gate_and_the_tasks_are_noted_for_later_runs(finished):
    home, result = finished
    looks, noted = home.query(f"""
tags = mlflow_client.get_registered_model("tiny").tags
path = mlflow_client.download_artifacts("{result.summary["mlflow_run_id"]}", "task_questions.json")
tasks = client.get_pipeline_run("{result.summary["pipeline_run_id"]}").steps["ingest_tasks"].outputs["tasks"][0].load()
print(json.dumps([{{key: value for key, value in tags.items() if key.startswith("mlflow.rlft.look.")}},
    [len(json.load(open(path))["train"]), len(tasks.split("train"))]]))
""")
    assert list(looks.values()) == ["1/20/0.05"]
    assert noted[0] == noted[1] > 0


def test_the_ledger_is_what_the_stored_artifacts_say(finished):
    home, result = finished
    # recomputed without rlft.training.ledger: a group teaches when its totals differ
    counted = home.query(f"""
counts = {{"sampled": 0, "trained": 0, "filtered": 0, "errored": 0}}
run = client.get_pipeline_run("{result.summary["pipeline_run_id"]}")
for number in range(3):
    def output(step, name):
        return run.steps[f"{{step}}_r{{number:03d}}"].outputs[name][0].load()
    rollouts, rewards = output("generate_rollouts", "rollouts"), output("score_rewards", "rewards")
    groups = {{}}
    for rollout, reward in zip(rollouts, rewards):
        assert rollout.rollout_id == reward.rollout_id
        groups.setdefault(rollout.task_id, []).append(reward.total)
    counts["sampled"] += len(rollouts)
    for totals in groups.values():
        counts["errored"] += totals.count(None)
        rest = [total for total in totals if total is not None]
        counts["trained" if len(set(rest)) > 1 else "filtered"] += len(rest)
    fates = output("train_grpo", "train_report").fates
    assert set(fates) == {{rollout.rollout_id for rollout in rollouts}}
print(json.dumps(counts))
""")
    ages = {"0": counted["sampled"]}  # without training.lag each round is sampled by the policy that it trains
    assert counted | {"ages": ages} == result.summary["ledger"]
    assert counted["sampled"] == 3 * 8 * 4
    assert counted["sampled"] == counted["trained"] + counted["filtered"] + counted["errored"]


def test_curves_parameters_datasets_and_links_are_in_mlflow(finished):
    home, result = finished
    found = home.query(f"""
run = mlflow_client.get_run("{result.summary["mlflow_run_id"]}")
curve = [(m.step, m.value) for m in mlflow_client.get_metric_history(run.info.run_id, "reward")]
result = [m.step for m in mlflow_client.get_metric_history(run.info.run_id, "0_result/after")]
zenml_run = client.get_pipeline_run("{result.summary["pipeline_run_id"]}")
print(json.dumps({{
    "steps": [step for step, _ in curve], "result": result,
    "metrics": run.data.metrics, "params": run.data.params, "tags": run.data.tags,
    "datasets": [d.dataset.name for d in run.inputs.dataset_inputs], "status": run.info.status,
    "linked": zenml_run.run_metadata.get("mlflow_run_id"),
}}))
""")
    assert found["steps"] == [1, 2, 3]
    assert found["result"] == [0, 0]  # not known yet, and known: MLflow draws a bar of step 0
    assert next(iter(found["metrics"])) == "0_result/gain"  # so the page that compares runs opens on it
    assert found["status"] == "FINISHED"
    assert found["params"]["training.rounds"] == "3"
    assert len(found["datasets"]) == 5
    assert found["linked"] == result.summary["mlflow_run_id"]
    assert found["tags"]["zenml.run_id"] == result.summary["pipeline_run_id"]
    expected = {
        "reward_std",
        "frac_reward_zero_std",
        "completions/mean_length",
        "policy_loss",
        "entropy",
        "grad_norm",
        "clip_ratio/region_mean",
        "sampling/sampling_logp_difference/max",
        "ledger/trained",
        "perf/rollout_seconds",
        "perf/orchestration_seconds",
        "eval/validation/accuracy",
    }
    assert expected <= set(found["metrics"])
    assert len(found["metrics"]) < 100  # what is no curve and no result is in files
    change = result.summary["difference"]
    ends = [found["metrics"][f"0_result/gain{suffix}"] for suffix in ("", "_low", "_high")]
    assert ends == pytest.approx([change["mean"], change["ci_low"], change["ci_high"]], abs=1e-4)
    shown = {tag for tag in found["tags"] if not tag.startswith("mlflow.")}  # MLflow's page hides its own
    assert len(shown) <= 6
    assert found["tags"]["mlflow.source.name"].startswith("rlft")
    assert len(found["tags"]["mlflow.source.git.commit"]) >= 7


def test_logged_metrics_are_those_of_the_stored_rollouts(finished):
    home, result = finished
    mean, logged = home.query(f"""
run = client.get_pipeline_run("{result.summary["pipeline_run_id"]}")
rewards = run.steps["score_rewards_r001"].outputs["rewards"][0].load()
history = mlflow_client.get_metric_history("{result.summary["mlflow_run_id"]}", "reward")
print(json.dumps([sum(r.total for r in rewards) / len(rewards), [m.value for m in history if m.step == 2][0]]))
""")
    assert logged == pytest.approx(mean, abs=1e-9)


def test_a_past_run_is_diagnosed_as_it_was_at_its_end(finished):
    home, result = finished
    done = home.module("cli", "diagnose", result.summary["pipeline_run_id"], "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rounds"] == 3
    texts = [f"{each['what']} {each['remedy']} More: {each['guide']}" for each in found["findings"]]
    if result.summary["status"] == "not_improved":
        assert texts == result.summary["diagnosis"]
    unknown = home.module("cli", "diagnose", "nosuchrun")
    assert unknown.returncode == 2
    assert "nosuchrun" in unknown.stderr


def test_rollouts_are_traces_with_their_rewards(finished):
    home, result = finished
    traces = home.query(f"""
from mlflow.tracing.client import TracingClient
run = mlflow_client.get_run("{result.summary["mlflow_run_id"]}")
found = TracingClient(uri).search_traces(experiment_ids=[run.info.experiment_id], max_results=100)
found = [t for t in found if t.info.trace_metadata["mlflow.sourceRun"] == run.info.run_id]
rows = [[t.data.spans[0].inputs["messages"][0]["content"], t.data.spans[0].outputs["messages"][0]["role"],
         sorted(a.name for a in t.info.assessments)] for t in found]
print(json.dumps(rows))
""")
    assert len(traces) == 8  # rounds 0 and 2, four rollouts each
    for asked, role, assessments in traces:
        assert asked.endswith("=")
        assert role == "assistant"
        assert "reward" in assessments


@pytest.mark.slow
def test_the_registered_version_answers_in_a_fresh_process(finished):
    home, result = finished
    promotion = result.summary["promotion"]
    assert promotion["version"] == "1"
    assert promotion["reasons"]
    done = home.python(
        "-c",
        "import sys, json, mlflow, pandas as pd\n"
        f"mlflow.set_tracking_uri('sqlite:///{home.folder}/.rlft/mlflow.db')\n"
        "model = mlflow.pyfunc.load_model('models:/tiny@challenger')\n"
        "print(json.dumps(list(model.predict(pd.DataFrame({'prompt': ['1 + 2 =']})))))\n"
        "assert 'rlft' not in sys.modules",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (answer,) = json.loads(done.stdout.strip().splitlines()[-1])
    assert isinstance(answer, str)


def test_the_registered_version_tells_what_it_is(finished):
    home, result = finished
    (card,) = (home.folder / ".rlft" / "mlflow-artifacts").glob("models/*/artifacts/artifacts/policy/README.md")
    held = {file.name for file in card.parent.iterdir()}
    told = {"README.md", "audit.json", "config.yaml", "context.json", "evaluation.json", "lineage.json"}
    assert held == {*told, "policy.json", "model", "tokenizer"}
    lineage = json.loads((card.parent / "lineage.json").read_text())
    assert lineage["mlflow_run_id"] == result.summary["mlflow_run_id"]
    evaluation = json.loads((card.parent / "evaluation.json").read_text())
    assert set(evaluation) == {"base", "warm_start", "trained", "constant"}


def test_doctor_finds_nothing_broken_here(finished):
    home, _ = finished
    result = home.rlft("doctor")
    assert result.code == 0, result.output
    assert "broken" not in result.output


@pytest.mark.slow
def test_old_weights_are_removed_and_trained_again_from_cached_rollouts_where_a_run_needs_them(finished, tmp_path):
    home, result = finished
    kept = home.query(f"""
import os
run = client.get_pipeline_run("{result.summary["pipeline_run_id"]}")
folders = {{n: os.path.join(run.steps[n].outputs["policy"][0].uri, "policy") for n in run.steps if "train_grpo" in n}}
print(json.dumps({{n: [os.path.isfile(os.path.join(f, "policy.json")),
    os.path.isfile(os.path.join(f, "model", "model.safetensors")),
    os.path.isfile(os.path.join(f, "optimizer.safetensors"))] for n, f in folders.items()}}))
""")
    best = result.summary["best_round"]
    for number in range(3):
        record, weights, optimizer = kept[f"train_grpo_r{number:03d}"]
        stays = number + 1 in (best, 3)  # keep.last is 1
        assert (record, weights, optimizer) == (True, stays, stays)
    # validating every round needs the weights of all rounds; the copy keeps this from other tests of the home
    home = home.copy(tmp_path)
    changed = home.rlft("run", str(TINY), "--set", "evaluation.validate_every=1")
    assert changed.code == 0, changed.output
    before, after = home.steps(result.summary["pipeline_run_id"]), home.steps(changed.summary["pipeline_run_id"])
    for number in range(3):
        assert after[f"generate_rollouts_r{number:03d}"]["status"] in ("cached", "skipped")  # nothing is sampled
        name = f"train_grpo_r{number:03d}"
        assert after[name]["weights"] == before[name]["weights"]
