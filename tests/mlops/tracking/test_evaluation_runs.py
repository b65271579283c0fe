"""Evaluations in a real MLflow server, read back as MLflow's own pages and calls read them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import httpx
import mlflow
import pytest
from mlflow import MlflowClient

from mlops.tracking.evaluation import CellResult, cell_metrics, log_cell
from mlops.tracking.run import Tracker
from rlft.evaluation.suites import evaluate_cell
from tests.e2e.conftest import free_port
from tests.factories import make_scored, make_task, make_task_set

pytestmark = pytest.mark.slow

TASKS = make_task_set(make_task("a", split="test", info={"level": "low"}), make_task("b", answer=None, split="gate"))


def result(model_id=None):
    rollouts, rewards = make_scored({"a": [1.0, 0.0], "b": [0.5, None]})
    measures = evaluate_cell(rollouts, rewards, TASKS, ["level"], None)[1]
    return CellResult("held_out", "best", {"kind": "run"}, model_id, measures, TASKS, rollouts, rewards)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    yield from served(folder, f"http://127.0.0.1:{free_port()}")


def served(folder, address):
    """MLflow's own server, which takes traces; the bare application of `tests.servers_away` does not."""
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", address.rsplit(":", 1)[1]]
    command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder / "a")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([*command, "--workers", "1"], stdout=log, stderr=log, start_new_session=True)
    try:
        until = time.monotonic() + 300
        while not is_up(address):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.2)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def is_up(address):
    try:
        return httpx.get(f"{address}/health", timeout=5).is_success
    except httpx.HTTPError:
        return False


def logged(address, folder, model_id=None, limit=None):
    parent = Tracker(address, "suite", "root", "quick", missed_path=folder / "root.json")
    return parent, log_cell(parent, result(model_id), {"rlft.suite": "q"}, folder / "cell.json", limit)


def test_a_model_at_a_cell_is_an_evaluation_in_the_shape_of_mlflows_own(address, tmp_path):
    client = MlflowClient(address, address)
    experiment = client.create_experiment("suite")
    model = client.create_logged_model(experiment, name="trained").model_id
    parent, run_id = logged(address, tmp_path, model)
    run = client.get_run(run_id)
    assert run.data.tags["mlflow.runType"] == "genai_evaluate"
    assert run.data.tags["mlflow.parentRunId"] == parent.run_id
    assert [each.model_id for each in run.inputs.model_inputs] == [model]
    assert sorted(each.dataset.name for each in run.inputs.dataset_inputs) == ["test-gate", "test-test"]
    assert run.data.metrics["eval/test/accuracy"] == 0.5
    assert run.data.metrics["eval/test/level/low/pass_at_2"] == 1.0
    assert run.data.metrics["eval/gate/attempts_without_score"] == 1.0
    query = f"metadata.`mlflow.sourceRun` = '{run_id}'"
    traces = client.search_traces(locations=[experiment], filter_string=query)
    assert len(traces) == 4
    by_id = {trace.info.tags["rlft.rollout_id"]: trace for trace in traces}
    solved = by_id["train-0-a-0"]
    assert solved.info.trace_metadata["mlflow.modelId"] == model
    said = {each.name: each.value for each in solved.info.assessments}
    assert said == {"reward": 1.0, "solved": True, "rewards/exact": 1.0, "expected_response": "2"}
    for each in solved.info.assessments:
        assert each.metadata["mlflow.assessment.sourceRunId"] == run_id
        assert each.span_id == solved.data.spans[0].span_id
    [failed] = by_id["train-0-b-1"].info.assessments  # no answer is expected of b
    assert failed.error is not None
    assert json.loads(solved.data.request)["messages"][-1]["content"] == "1+1="


def test_mlflows_own_search_of_a_run_finds_the_attempts(address, tmp_path):
    _, run_id = logged(address, tmp_path)
    mlflow.set_tracking_uri(address)
    try:
        experiment = MlflowClient(address).get_run(run_id).info.experiment_id
        found = mlflow.search_traces(locations=[experiment], run_id=run_id, return_type="list")
    finally:
        mlflow.set_tracking_uri(None)
    assert len(found) == 4


def test_writing_it_again_changes_nothing_and_a_limit_takes_the_worst_and_the_best(address, tmp_path):
    first = logged(address, tmp_path)[1]
    assert logged(address, tmp_path)[1] == first
    client = MlflowClient(address, address)
    experiment = client.get_run(first).info.experiment_id
    traces = client.search_traces(locations=[experiment], filter_string=f"metadata.`mlflow.sourceRun` = '{first}'")
    assert len(traces) == 4


def test_a_store_that_is_away_takes_nothing_and_stops_nothing(tmp_path):
    parent, run_id = logged("http://127.0.0.1:9", tmp_path)
    assert (parent.run_id, run_id) == (None, None)


def test_metrics_have_their_ends():
    metrics = cell_metrics(result().measures)
    assert metrics["eval/gate/reward_low"] <= metrics["eval/gate/reward"] <= metrics["eval/gate/reward_high"]
    assert metrics["eval/test/tasks"] == 1.0
