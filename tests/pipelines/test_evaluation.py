"""What an evaluation leaves, and whether others who share its stack see that it goes on."""

from __future__ import annotations

import json

import pytest

from mlops.home.folder import Home
from mlops.summary.file import EvaluationSummary, read_result
from pipelines import replay as module
from tests.mlops.made import make_run

RUN = make_run("run", "suite-evaluate", pipeline="evaluate")
TEAM = "http://team:5000"


@pytest.fixture
def home(monkeypatch, tmp_path):
    own = Home(tmp_path)
    (tmp_path / "runs").mkdir()
    monkeypatch.setattr(module, "find_home", lambda: own)
    monkeypatch.setattr(module, "note_artifacts", lambda *_: None)  # it asks ZenML
    return own


def summary() -> EvaluationSummary:
    return EvaluationSummary("suite", "accuracy", 0)


def test_one_that_is_killed_says_how_to_go_on_and_one_that_fails_says_why(home):
    with pytest.raises(ValueError, match="no such cell"):
        _failing(home)
    found = read_result(home.run_folder("suite-evaluate"))
    assert found is not None
    assert (found["status"], found["error"]) == ("failed", "no such cell")
    assert found["seconds"] > 0


def _failing(home: Home) -> None:
    with module.keeping(summary(), RUN.name, RUN, home.tracking_uri):
        inside = json.loads((home.run_folder("suite-evaluate") / "summary.json").read_text())
        assert (inside["status"], inside["pipeline_run_id"]) == ("interrupted", "run")  # all that a kill leaves
        raise ValueError("no such cell")


def test_one_that_has_finished_keeps_its_own_seconds_and_is_closed_with_its_summary_written(home):
    closed = []

    def close():
        closed.append(read_result(home.run_folder("suite-evaluate")))

    with module.keeping(own := summary(), RUN.name, RUN, home.tracking_uri, close):
        own.seconds = 7.0
    [found] = closed
    assert found is not None
    assert (found["status"], found["seconds"]) == ("finished", 7.0)
