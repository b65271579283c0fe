"""A control that only some runs train: it has its place in the summary, in MLflow and in the store."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import TINY

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]


def test_rejection_sampling_is_an_arm_and_its_report_is_kept(make_home):
    home = make_home("rejection")
    result = home.rlft("run", str(TINY), "--set", "controls=[rejection_sampling]", "--set", "training.rounds=2")
    assert result.code == 0, result.output
    summary = result.summary
    assert summary is not None
    assert set(summary["controls"]) == set(summary["difference_controls"]) == {"rejection_sampling", "constant"}
    arm, change = summary["controls"]["rejection_sampling"], summary["difference_controls"]["rejection_sampling"]
    assert {"accuracy", "reward", "gate/accuracy", "off_distribution/accuracy"} <= set(arm)
    assert change["mean"] == pytest.approx(summary["final"]["accuracy"] - arm["accuracy"])
    assert "Trained minus Rejection sampling" in result.output
    report, loss, spent = home.query(f"""
path = mlflow_client.download_artifacts("{summary["mlflow_run_id"]}", "controls/rejection_sampling.json")
metrics = mlflow_client.get_run("{summary["mlflow_run_id"]}").data.metrics
print(json.dumps([json.load(open(path)), metrics["rejection_sampling_control/loss"],
    metrics["rejection_sampling_control/flops"]]))
""")
    assert report["spent"] == spent <= report["budget"]
    assert {(each["form"], each["rounds"]) for each in report["candidates"]} >= {("full", 2), ("best", 2)}
    assert report["chosen"]["validation"] == max(each["validation"] for each in report["candidates"])
    assert report["losses"][-1] == pytest.approx(loss)
    steps = home.steps(summary["pipeline_run_id"])
    stores = home.folder / ".rlft" / "zenml" / "local_stores"
    (weights,) = stores.glob("*/rejection_sampling_control/policy/*/*/policy/model/*.safetensors")
    weights.unlink()  # of a run that has finished
    again = home.rlft("resume", summary["pipeline_run_id"])
    assert again.code == 0, again.output
    assert again.summary is not None
    redone = home.steps(again.summary["pipeline_run_id"])
    assert redone["rejection_sampling_control"]["status"] == "completed"
    assert redone["rejection_sampling_control"]["weights"] == steps["rejection_sampling_control"]["weights"]
    assert {redone[name]["status"] for name in redone if name.startswith("train_grpo")} == {"skipped"}
    assert again.summary["controls"] == summary["controls"]
    assert again.summary["difference_controls"] == summary["difference_controls"]
