"""The mean curve of a sweep, by value, and as MLflow gets it."""

import pytest
from mlflow import MlflowClient

from mlops.tracking.run import Tracker
from pipelines.sweep import log_mean_curves, mean_curve
from tests.mlflow_stores import new_store
from tests.pipelines.test_sweep import run

NAME = "eval/validation/accuracy"


def test_the_mean_is_of_the_steps_that_all_runs_have():
    # at step 2: mean 0.5, deviation 0.2828 / sqrt(2) = 0.2, times t(0.975, 1) = 12.706
    found = dict(mean_curve(NAME, [{0: 0.1, 2: 0.3, 4: 0.9}, {0: 0.1, 2: 0.7}], "/rate 1"))
    assert found[0] == {f"{NAME}/rate 1": pytest.approx(0.1)}  # equal values have no interval
    assert found[2] == {
        f"{NAME}/rate 1": 0.5,
        f"{NAME}_over_seeds_low/rate 1": pytest.approx(0.5 - 12.706 * 0.2, abs=1e-3),
        f"{NAME}_over_seeds_high/rate 1": pytest.approx(0.5 + 12.706 * 0.2, abs=1e-3),
    }
    assert list(found) == [0, 2]
    assert list(mean_curve(NAME, [])) == []


def test_the_run_of_a_sweep_gets_the_mean_curve_of_each_setting(tmp_path):
    address = new_store(tmp_path)
    client = MlflowClient(address)
    experiment = client.create_experiment("e")
    runs = []
    for rate, seed, reached in (("1", "0", 0.25), ("1", "1", 0.75), ("2", "0", 1.0)):
        own = client.create_run(experiment).info.run_id
        client.log_metric(own, NAME, reached, step=4)
        swept = run({"training.learning_rate": rate, "seed": seed}, reached)
        swept.summary.mlflow_run_id = own
        runs.append(swept)
    tracker = Tracker(address, "e", "sweep", "sweep", missed_path=tmp_path / "missed")
    log_mean_curves(tracker, runs)
    metrics = client.get_run(tracker.run_id).data.metrics
    assert metrics[f"{NAME}/learning_rate 1"] == 0.5
    assert metrics[f"{NAME}/learning_rate 2"] == 1.0
    [point] = client.get_metric_history(tracker.run_id, f"{NAME}/learning_rate 1")
    assert point.step == 4
