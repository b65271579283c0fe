"""Where a run started, and how it ended."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mlops.home.folder import Home
from mlops.stored import contrast_start
from mlops.stored.contrast_start import start_report, status_of
from mlops.summary.file import keep_summary
from mlops.summary.replays import RescoreSummary, keep_replay
from mlops.summary.summary import Summary
from rlft.errors import RlftError

RUNS = {
    "warm": {"evaluate_policy_base": "base", "evaluate_policy_warm_start": "warm start"},
    "cold": {"evaluate_policy_base": "base of cold"},
    "replay": {},
}


@pytest.fixture(autouse=True)
def _stored(monkeypatch):
    def find_run(name):
        if name not in RUNS:
            raise RlftError("no run", where="RUN", fix="")
        return name

    def stored_output(run, stored, name):
        found = RUNS[run].get(stored.step_id(name))
        return None if found is None else SimpleNamespace(splits={"test": found})

    monkeypatch.setattr("mlops.runs.finding.find_run", find_run)
    monkeypatch.setattr(contrast_start, "stored_output", stored_output)


@pytest.mark.parametrize(
    ("run", "replay", "expected"),
    [
        ("warm", {}, "warm start"),
        ("cold", {}, "base of cold"),
        ("cold", {"kind": "rescore", "of": "warm"}, "base of cold"),  # the attempts of its own, scored again
        ("replay", {"kind": "retrain", "of": "warm", "from_round": 0}, "warm start"),
        ("replay", {"kind": "retrain", "of": "warm", "from_round": 2}, None),
        ("replay", {"kind": "retrain", "of": "deleted", "from_round": 0}, None),
        ("replay", {}, None),
    ],
)
def test_training_started_from_the_warm_start_else_from_the_base_model(run, replay, expected):
    assert start_report(run, replay, "test") == expected


def test_a_split_on_which_the_start_was_not_evaluated_has_no_start():
    assert start_report("warm", {}, "off_distribution") is None


def test_the_newest_attempt_with_a_summary_says_how_a_run_ended(tmp_path, monkeypatch):
    home = Home(tmp_path)
    (home.root / "runs").mkdir(parents=True)
    monkeypatch.setattr(
        "mlops.runs.finding.attempts_of", lambda run: [SimpleNamespace(id=each) for each in ("new", "newer", "old")]
    )
    in_mlflow = [Summary(status="improved"), None]
    monkeypatch.setattr(contrast_start, "stored_summary", lambda home, run: in_mlflow.pop())
    assert status_of(home, "run") == "unknown"
    assert status_of(home, "run") == "improved"  # another home has begun it
    keep_summary(home, Summary(status="failed", pipeline_run_id="old"))
    assert status_of(home, "run") == "failed"
    replay = RescoreSummary("rescore", "r", "s", "i", status="finished", pipeline_run_id="newer")
    keep_replay(home, replay)
    assert status_of(home, "run") == "finished"
    keep_summary(home, Summary(status="not_improved", pipeline_run_id="new"))
    assert status_of(home, "run") == "not_improved"
