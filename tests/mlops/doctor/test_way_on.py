"""What `rlft doctor` says of how a person goes on with what was cut short."""

from __future__ import annotations

import os

import pytest

from mlops.doctor.way_on import way_on
from mlops.summary.evaluations import EvaluationSummary, evaluation_file, keep_evaluation
from mlops.summary.replays import RetrainSummary, keep_replay, replay_file
from tests.mlops.runs.test_listing import Made

COMMAND = "rlft retrain sums --set training.loss_type=dapo"


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path / "home")


def replay(made, name, state="running", **told):
    run_id = made.attempt(name, state, 3, tag=name, pipeline="x")
    keep_replay(made.home, RetrainSummary("retrain", name, "sums", "id", pipeline_run_id=run_id, **told))
    return run_id


def test_a_run_is_resumed(made):
    run_id = made.attempt("my sums", "running", 3, tag="my sums")
    assert way_on(made.home, run_id, "my sums") == "rlft resume 'my sums'"
    assert way_on(made.home, "gone", "gone") == "rlft resume gone"


def test_the_command_of_a_replay_or_an_evaluation_is_given_again(made):
    assert way_on(made.home, replay(made, "again", command=COMMAND), "again") == COMMAND
    run_id = made.attempt("look", "running", 3, tag="look", pipeline="e")
    assert way_on(made.home, run_id, "look").startswith("give its `rlft evaluate` command again")
    keep_evaluation(made.home, EvaluationSummary("s", "m", 0, pipeline_run_id=run_id, command="rlft evaluate a b"))
    assert way_on(made.home, run_id, "look") == "rlft evaluate a b"
    evaluation_file(made.home, run_id).write_text("[")
    assert way_on(made.home, run_id, "look").startswith("give its `rlft evaluate` command again")


def test_nothing_is_said_where_the_same_command_has_finished_since(made):
    left = replay(made, "one", command=COMMAND)
    others = [
        replay(made, "before", "completed", status="finished", command=COMMAND),
        replay(made, "failed", "failed", status="failed", error="no", command=COMMAND),
        replay(made, "other", "completed", status="finished", command="rlft retrain sums"),
    ]
    times = [(left, 100), (others[0], 50), (others[1], 200), (others[2], 200)]
    for run_id, time in times:
        os.utime(replay_file(made.home, run_id), (time, time))
    assert way_on(made.home, left, "one") == COMMAND
    replay(made, "two", "completed", status="finished", command=COMMAND)
    assert way_on(made.home, left, "one") == ""
