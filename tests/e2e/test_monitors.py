"""A reward that is broken on purpose: it rises, right answers get fewer, and a monitor ends the run with the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.conftest import ROOT, Home
from tests.shipped import overrides

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow, pytest.mark.long]
WATCHED_AGAIN = """
from mlops.home.folder import find_home
from mlops.runs.results import open_run, stored_history
from rlft.config import MonitorsConfig
from rlft.evaluation.diagnosis.monitors import watch

history = stored_history(open_run(find_home(), "loop", None))
found = watch(history, MonitorsConfig(honest="right").actions(), rounds=16, validations=8)
print(json.dumps([[each.monitor, each.action, each.rounds, each.what] for each in found]))
"""
LOGGED = """
run_id = "{run_id}"
curves = {{
    name: {{point.step: point.value for point in mlflow_client.get_metric_history(run_id, name)}}
    for name in ("eval/validation/reward", "eval/validation/rewards/right", "monitors/overoptimization")
}}
files = [each.path for each in mlflow_client.list_artifacts(run_id)]
description = mlflow_client.get_run(run_id).data.tags["mlflow.note.content"]
print(json.dumps({{"curves": curves, "files": files, "description": description}}))
"""


@pytest.fixture(scope="module")
def stopped(make_home, shared_data) -> tuple[Home, dict[str, Any], str]:
    """A home with the run of the shipped config."""
    home = make_home("monitors")
    sets = [part for pair in overrides("loophole", shared_data) for part in ("--set", pair)]
    done = home.rlft("run", str(ROOT / "configs" / "loophole.yaml"), "--name", "loop", *sets)
    assert done.code == 0, done.output
    assert done.summary is not None
    return home, done.summary, done.output


def test_the_run_stops_with_the_reason_and_keeps_what_is_best_by_what_counts(stopped):
    _, summary, output = stopped
    assert summary["stopped"].startswith("monitor overoptimization: On ")
    alarm = next(each for each in summary["alarms"] if each["monitor"] == "overoptimization")
    assert alarm["action"] == "stop"
    assert summary["rounds"] == alarm["rounds"] < 16
    assert summary["best_round"] < summary["rounds"]  # the last policy is worse in what counts
    assert not summary["promotion"]["promoted"]
    assert any(reason.startswith("fails: the monitor overoptimization") for reason in summary["promotion"]["reasons"])
    assert "training ended early (monitor overoptimization)" in " ".join(output.replace("│", "").split())


def test_training_again_asks_what_looks_at_validation_and_stops_as_well(stopped):
    home, summary, _ = stopped
    done = home.module("cli", "retrain", "loop", "--from-round", "0", "--name", "again", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    theirs = next(each for each in summary["alarms"] if each["monitor"] == "overoptimization")
    # Nothing was changed, so that the policies are the same; the run's rounds end where the monitor has ended it.
    assert found["alarms"] == [theirs]
    assert found["rounds"] == summary["rounds"]


def test_the_reward_has_risen_and_the_right_answers_have_not(stopped):
    home, summary, _ = stopped
    logged = home.query(LOGGED.format(run_id=summary["mlflow_run_id"]))
    last = str(summary["rounds"])
    paid, right = (logged["curves"][f"eval/validation/{name}"] for name in ("reward", "rewards/right"))
    assert paid[last] > paid["0"] + 0.1
    assert right[last] < right["0"] - 0.1
    assert right[str(summary["best_round"])] == max(value for step, value in right.items() if step != "0")
    assert logged["curves"]["monitors/overoptimization"] == {last: 1.0}
    assert "monitors.json" in logged["files"]
    assert "Monitor overoptimization, after" in logged["description"]


def test_what_is_stored_raises_the_same_alarms_again(stopped):
    home, summary, _ = stopped
    keys = ("monitor", "action", "rounds", "what")
    last = [[each[key] for key in keys] for each in summary["alarms"] if each["rounds"] == summary["rounds"]]
    # The share of known attacks is not among what is stored of a round: it is counted anew from its attempts.
    assert [each for each in home.query(WATCHED_AGAIN) if each[2] == summary["rounds"]] == [
        each for each in last if each[0] != "known_attacks"
    ]


def test_the_page_of_the_run_says_it_and_by_what_the_best_was_chosen(stopped):
    home, _, _ = stopped
    done = home.rlft("report", "loop", "--to", "loop.html")
    assert done.code == 0, done.output
    page = (home.folder / "loop.html").read_text()
    assert "Monitor overoptimization, after" in page
    assert "rewards/right" in page  # of the figure on validation, by which the best was chosen
