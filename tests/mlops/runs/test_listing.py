"""What is listed of a home, by its files. With real runs: tests/e2e/test_removal.py."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from io import StringIO
from uuid import UUID

import pytest

from cli.runs import cost, show_runs
from mlops.home.folder import PROJECT, Home
from mlops.runs.listing import list_runs
from mlops.runs.store import RunStore
from mlops.summary.file import SUMMARY_FILE, keep_summary
from mlops.summary.replays import RetrainSummary
from mlops.summary.summary import Difference, Promotion, Summary
from rlft.reporting.terminal import Terminal
from tests.mlops.made import make_run

PIPELINES = {"p": "train", "x": "retrain", "e": "evaluate"}
GAIN = Difference(metric="accuracy", before=0.25, after=0.75, mean=0.5, ci_low=0.25, ci_high=0.75, tasks=12)


class Made:
    """A home with the files of runs."""

    def __init__(self, root):
        self.home, self.count = Home(root), 0
        (root / "runs").mkdir(parents=True)

    def attempt(self, name, state, hours, *, tag=None, pipeline="p", noted=None, **summary):
        """An attempt that began so many hours ago and took one; returns its id."""
        self.count += 1
        began = datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=hours)
        run_id = str(UUID(int=self.count))
        store = RunStore(self.home)
        store.start(make_run(run_id, name, began, PIPELINES[pipeline]), tag or name)
        if state != "running":
            store.end(tag or name, run_id, state, began.replace(tzinfo=UTC) + timedelta(hours=1))
        store.note(tag or name, run_id, **(noted or {}))
        if "mlflow_run_id" in summary:
            store.note(tag or name, run_id, mlflow_run_id=summary["mlflow_run_id"])
        if summary:
            keep_summary(self.home.run_folder(tag or name), Summary(pipeline_run_id=run_id, **summary))
        return run_id


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path / "home")


def test_a_run_is_all_attempts_at_it(made):
    first = made.attempt("sums", "failed", 9, tag="sums", status="failed", mlflow_run_id="m1")
    second = made.attempt(
        "sums-resumed-1", "completed", 5, tag="sums", status="improved", mlflow_run_id="m1", difference=GAIN,
        promotion=Promotion(name="tiny", version="2"), noted={"tokens": 100, "gpu_hours": 1.5},
    )  # fmt: skip
    [run] = list_runs(made.home).runs
    assert (run.name, run.status, [each.id for each in run.attempts]) == ("sums", "improved", [second, first])
    assert run.seconds == 7200  # an hour each
    assert (run.tokens, run.gpu_hours) == (100, 1.5)
    assert run.version == ("tiny", "2")
    assert run.summary.difference == GAIN


HOLDER = """
import sys, time
from pathlib import Path
from mlops.home.processes import claimed
with claimed(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_what_became_of_runs(made):
    made.attempt("alive", "running", 2, tag="alive")
    made.attempt("dead", "running", 0.001, tag="dead")  # it has just begun, and its process is gone
    made.attempt("killed", "running", 3, tag="killed", status="running")
    made.attempt("failed", "failed", 4, status="failed", error="no")
    made.attempt("hard", "completed", 5, status="too_hard", mlflow_run_id="m2")
    made.attempt("bare", "completed", 6)
    made.attempt("my cut", "failed", 7, tag="my cut", status="failed")
    made.attempt("my cut-resumed-1", "failed", 6.5, tag="my cut", status="interrupted", error="interrupted")
    command = [sys.executable, "-c", HOLDER, str(made.home.run_folder("alive"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=PROJECT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        runs = list_runs(made.home).runs
        process.kill()
    assert {run.name: run.status for run in runs} == {
        "dead": "killed", "alive": "running", "killed": "killed", "failed": "failed",
        "hard": "too_hard", "bare": "finished", "my cut": "interrupted",
    }  # fmt: skip
    assert [run.name for run in runs if run.is_resumable] == ["dead", "killed", "failed", "my cut"]
    assert {run.name: run.again for run in runs if run.again} == {"my cut": "rlft resume 'my cut'"}
    assert list_runs(made.home).runs[0].as_json()["name"] == "dead"


def test_a_replay_that_was_cut_short_is_interrupted_and_names_its_command(made):
    def replay(name, state, **told):
        run_id = made.attempt(name, state, 3, tag=name, pipeline="x")
        summary = RetrainSummary("retrain", name, "sums", "id", pipeline_run_id=run_id, **told)
        (made.home.run_folder(name) / SUMMARY_FILE).write_text(summary.as_text())

    replay("killed", "running", command="rlft retrain sums")
    replay("ended", "failed", command="rlft retrain sums --name ended")
    replay("wrong", "failed", status="failed", error="no", command="rlft retrain sums")
    replay("done", "completed", status="finished", command="rlft retrain sums")
    made.attempt("before", "failed", 3, tag="before", pipeline="x")  # it has left nothing else
    assert {run.name: (run.status, run.again) for run in list_runs(made.home).runs} == {
        "killed": ("interrupted", "rlft retrain sums"),
        "ended": ("interrupted", "rlft retrain sums --name ended"),
        "wrong": ("failed", ""),
        "done": ("finished", ""),
        "before": ("failed", ""),
    }


DAMAGES = {
    "missing": None,
    "empty": "",
    "half": '{"status": "impro',
    "null": "null",
    "types": '{"format": 2, "status": 3}',
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_run_whose_summary_is_damaged_is_known_by_its_folder_and_the_damage_is_told(made, damage):
    made.attempt("two", "completed", 5, status="improved", mlflow_run_id="m2", difference=GAIN)
    file = made.home.run_folder("two") / SUMMARY_FILE
    file.unlink() if DAMAGES[damage] is None else file.write_text(DAMAGES[damage])
    listing = list_runs(made.home)
    [run] = listing.runs
    assert (run.status, run.version, run.mlflow_runs) == ("finished", None, ("m2",))
    [said] = listing.damaged
    assert said.startswith(f"{file} is damaged or gone")
    assert listing.problems == []


@pytest.mark.parametrize("text", ["{", "[]", "", '{"format": 99}'])
def test_a_run_whose_file_cannot_be_read_is_left_out_and_told(made, text):
    made.attempt("sums", "completed", 1)
    made.attempt("other", "completed", 2)
    file = made.home.root / "runs" / "sums" / "run.json"
    file.write_text(text)
    listing = list_runs(made.home)
    assert [run.name for run in listing.runs] == ["other"]
    assert [str(file) in problem for problem in listing.problems] == [True]


def test_a_home_without_runs(tmp_path):
    listing = list_runs(Home(tmp_path))
    assert (listing.runs, listing.problems) == ([], [])


def test_80_columns_have_room_for_all_that_is_known_of_a_run(made):
    for number in range(3):
        made.attempt(
            f"press-releases-20261123-07245{number}-423787", "completed", number, status="not_improved",
            mlflow_run_id="m2", difference=GAIN, promotion=Promotion(name="tiny", version="3"),
        )  # fmt: skip
    text = StringIO()
    show_runs(Terminal(file=text, width=80), list_runs(made.home).runs, limit=2)
    lines = text.getvalue().splitlines()
    # The headings, two runs of a name and two lines, and the last sentence.
    assert [len(line) <= 80 for line in lines] == [True] * 8
    assert lines[1] == "press-releases-20261123-072450-423787"
    row = " ".join(lines[2:4])
    for part in ("not_improved", "+0.50 [+0.25, +0.75]", "20", "1 h 0 min", "tiny 3"):
        assert part in row
    assert "2 of 3 runs" in lines[-1]


def test_the_cost_names_what_is_known(made):
    made.attempt(
        "sums", "completed", 1, mlflow_run_id="m1", status="improved", noted={"tokens": 12_345, "gpu_hours": 1.5}
    )
    assert cost(list_runs(made.home).runs[0]) == "1 h 0 min\n1.5 GPU h\n12.3k tokens"


def test_replays_are_listed_by_their_kind_and_are_not_resumed(made):
    run_id = made.attempt("again", "failed", 3, pipeline="x", noted={"mlflow_run_id": "m1"})
    summary = RetrainSummary("retrain", "again", "first", "1", pipeline_run_id=run_id, mlflow_run_id="m1")
    (made.home.run_folder("again") / SUMMARY_FILE).write_text(summary.as_text())
    made.attempt("first", "failed", 4, tag="first")
    again, first = list_runs(made.home).runs
    assert (again.kind, again.mlflow_runs, again.is_resumable) == ("retrain", ("m1",), False)
    assert (first.kind, first.is_resumable) == ("training", True)
    terminal = Terminal(file=StringIO(), width=100)
    show_runs(terminal, [again, first], 0)
    assert "retrain" in terminal.file.getvalue()
