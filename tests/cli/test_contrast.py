"""Where a run started, and how it ended."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cli.contrasted import start_report
from mlops.home.folder import Home
from mlops.runs.store import RunStore
from mlops.summary.file import SUMMARY_FILE, keep_summary
from mlops.summary.replays import RescoreSummary
from mlops.summary.summary import Summary
from rlft.errors import RlftError
from tests.mlops.made import make_run

RUNS = {
    "warm": {"evaluate_policy_base": "base", "evaluate_policy_warm_start": "warm start"},
    "cold": {"evaluate_policy_base": "base of cold"},
    "replay": {},
}


class Run:
    """A run by its name, with the evaluations that `RUNS` has of it."""

    def __init__(self, name):
        self.name = name

    def output(self, stored, name):
        found = RUNS[self.name].get(stored.step_id(name))
        return found and SimpleNamespace(splits={"test": found})

    def sibling(self, name):
        if name not in RUNS:
            raise RlftError("no run", where="RUN", fix="")
        return Run(name)


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
    assert start_report(Run(run), replay, "test") == expected


def test_a_split_on_which_the_start_was_not_evaluated_has_no_start():
    assert start_report(Run("warm"), {}, "off_distribution") is None


def test_the_summary_of_a_run_says_how_it_ended(tmp_path):
    run = RunStore(Home(tmp_path)).start(make_run("1", "sums"), "sums")
    assert run.status() == "unknown"
    (run.folder / SUMMARY_FILE).write_text(RescoreSummary("rescore", "r", "s", "i", status="finished").as_text())
    assert run.status() == "finished"
    keep_summary(run.folder, Summary(status="not_improved"))
    assert run.status() == "not_improved"
