"""What MLflow is told of an evaluation."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mlops.summary.file import EvaluationSummary
from pipelines import evaluate as module
from pipelines.evaluate import end_report, report_evaluation
from pipelines.scenarios import Evaluated


class FakeTracker:
    """Keeps what is written into the MLflow run of an evaluation, in order."""

    run_id = "above"

    def __init__(self):
        self.written = []

    def log_params(self, params):
        """Nothing that is looked at."""

    def log_json(self, name, content):
        self.written.append((name, content))

    def log_metrics(self, metrics, step):
        self.written += metrics.items()

    def finish(self):
        self.written.append("finished")


@pytest.fixture
def tracker(monkeypatch):
    found = FakeTracker()
    monkeypatch.setattr(module, "Tracker", lambda *_, **__: found)
    monkeypatch.setattr(module, "log_cell", lambda parent, result, *_: f"{result.cell} of {result.model}")
    return found


def test_mlflow_has_the_summary_as_it_is_at_the_end(tracker):
    summary = EvaluationSummary("quick", "accuracy", 0, pipeline_run_id="run", models={"a": {}})
    artifact = SimpleNamespace(load=lambda: None)
    result = Evaluated(artifact, artifact, artifact, None, None)
    suite = SimpleNamespace(name="quick", experiment=None, max_traces=5, model_dump=dict)
    run = SimpleNamespace(id="run", name="quick-evaluate", config=SimpleNamespace(parameters={}))
    opened = {"a": SimpleNamespace(version=None)}
    parent = report_evaluation(suite, opened, {"two": {"a": result}}, summary, "http://away", run)
    assert [name for name, _ in tracker.written] == [
        "suite.json"
    ]  # neither how it ends nor how long it takes is known yet
    summary.status, summary.seconds = "finished", 2.5
    end_report(parent, summary)
    [_, (name, told), *rest] = tracker.written
    assert (name, rest) == ("evaluation.json", ["finished"])
    assert (told["status"], told["seconds"], told["mlflow_run_id"]) == ("finished", 2.5, "above")
    assert told["mlflow_runs"] == {"two": {"a": "two of a"}}
