"""What the list of a stack's runs reads from MLflow. With real servers: tests/team/test_shared.py."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow import MlflowClient
from zenml.enums import ExecutionStatus

from mlops.home.folder import Home
from mlops.home.processes import resume_command
from mlops.runs import shared as stack_runs
from mlops.runs.shared import _listed, _registered
from mlops.summary.file import keep_summary
from mlops.summary.result import result_metrics
from mlops.summary.summary import Summary
from tests.mlflow_stores import new_store


def test_the_gpu_hours_of_a_run_are_those_of_its_attempts(tmp_path):
    client = MlflowClient(uri := new_store(tmp_path))
    experiment = client.create_experiment("sums", artifact_location=(tmp_path / "artifacts").as_uri())
    first, second, nothing = (client.create_run(experiment).info.run_id for _ in range(3))
    summary = Summary(status="improved")
    summary.seconds.total = 1800.0
    for attempt, gpus in ((first, 4), (second, 3)):
        for name, value in result_metrics(summary, gpus=gpus).items():
            client.log_metric(attempt, name, value)
    problems: list[str] = []
    assert _registered(uri, (first, second, nothing), problems) == (None, (), pytest.approx(2 + 1.5))
    assert _registered(uri, (nothing,), problems) == (None, (), None)
    assert problems == []


@pytest.mark.parametrize(
    ("pipeline", "summary", "status", "again"),
    [
        ("train", "interrupted", "interrupted", resume_command("sums", "my team")),
        ("train", "failed", "killed", ""),
        ("retrain", "interrupted", "interrupted", ""),
    ],
)
def test_what_was_interrupted_names_the_command_that_goes_on_with_the_stack(
    pipeline, summary, status, again, tmp_path, monkeypatch
):
    monkeypatch.setattr(stack_runs, "is_alive", lambda *_: False)
    run: Any = SimpleNamespace(
        id="7",
        name="sums-resumed-1",
        status=ExecutionStatus.RUNNING,
        created=datetime(2026, 11, 1),
        start_time=None,
        end_time=None,
        pipeline=SimpleNamespace(name=pipeline),
        config=SimpleNamespace(parameters={}),
        run_metadata={},
        user=None,
    )
    keep_summary(Home(tmp_path).run_folder("sums"), Summary(status=summary, pipeline_run_id="7"))
    listed = _listed(Home(tmp_path), "sums", [run], "my team", [])
    assert (listed.status, listed.again) == (status, again)
