"""What the list of a stack's runs reads from MLflow. With real servers: tests/team/test_shared.py."""

from __future__ import annotations

import pytest
from mlflow import MlflowClient

from mlops.stored.stack_runs import _registered
from mlops.summary.result import result_metrics
from mlops.summary.summary import Summary


def test_the_gpu_hours_of_a_run_are_those_of_its_attempts_also_as_an_earlier_rlft_has_written_them(tmp_path):
    client = MlflowClient(uri := f"sqlite:///{tmp_path}/mlflow.db")
    experiment = client.create_experiment("sums", artifact_location=(tmp_path / "artifacts").as_uri())
    now, before, nothing = (client.create_run(experiment).info.run_id for _ in range(3))
    summary = Summary(status="improved")
    summary.seconds.total = 1800.0
    for name, value in result_metrics(summary, gpus=4).items():
        client.log_metric(now, name, value)
    client.log_metric(before, "perf/gpu_hours", 1.5)
    problems: list[str] = []
    assert _registered(uri, (now, before, nothing), problems) == (None, (), pytest.approx(2 + 1.5))
    assert _registered(uri, (nothing,), problems) == (None, (), None)
    assert problems == []
