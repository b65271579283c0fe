"""What is listed of a home, by files of runs and MLflow's tables. With real runs: tests/e2e/test_removal.py."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from uuid import UUID

import pytest

from cli.runs import cost, duration, show_runs
from mlops.display.terminal import Terminal
from mlops.home.folder import Home
from mlops.home.processes import Note, note_process
from mlops.registry.changes import Change, Person
from mlops.removal.plan import own_files, why_kept
from mlops.runs.last_sign import last_sign
from mlops.runs.listing import list_runs, sweeps_of, to_json
from mlops.runs.store import RunStore
from mlops.summary.file import keep_summary
from mlops.summary.replays import RetrainSummary, keep_replay
from mlops.summary.sections import Difference
from mlops.summary.summary import Summary
from tests.mlops.made import make_run

PIPELINES = {"p": "train", "x": "retrain", "e": "evaluate"}
MLFLOW = """
CREATE TABLE model_versions (name TEXT, version INTEGER, run_id TEXT);
CREATE TABLE registered_model_aliases (alias TEXT, version INTEGER, name TEXT);
CREATE TABLE registered_model_tags (name TEXT, key TEXT, value TEXT);
CREATE TABLE model_version_tags (name TEXT, version INTEGER, key TEXT, value TEXT);
CREATE TABLE latest_metrics (key TEXT, value REAL, run_uuid TEXT);
CREATE TABLE runs (run_uuid TEXT, name TEXT);
CREATE TABLE tags (key TEXT, value TEXT, run_uuid TEXT);
INSERT INTO model_versions VALUES ('tiny', 2, 'm1'), ('tiny', 3, 'm2');
INSERT INTO registered_model_aliases VALUES ('champion', 3, 'tiny'), ('challenger', 3, 'tiny');
INSERT INTO latest_metrics VALUES ('0_result/used/gpu_hours', 1.5, 'm1'), ('perf/gpu_hours', 0.0, 'm2');
"""
GAIN = Difference(metric="accuracy", before=0.25, after=0.75, mean=0.5, ci_low=0.25, ci_high=0.75, tasks=12)


class Made:
    """A home with the files of runs, and what is in MLflow's database."""

    def __init__(self, root):
        self.home, self.count = Home(root), 0
        root.mkdir()
        with closing(sqlite3.connect(root / "mlflow.db")) as database:
            database.executescript(MLFLOW)

    def attempt(self, name, state, hours, *, tag=None, pipeline="p", tokens=None, **summary):
        """An attempt that began so many hours ago and took one; returns its id."""
        self.count += 1
        began = datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=hours)
        run_id = str(UUID(int=self.count))
        store = RunStore(self.home)
        store.start(make_run(run_id, name, began, PIPELINES[pipeline]), tag or name)
        if state != "running":
            store.end(tag or name, run_id, state, began.replace(tzinfo=UTC) + timedelta(hours=1))
        if tokens is not None:
            store.note(tag or name, run_id, tokens=tokens)
        if summary:
            keep_summary(self.home, Summary(pipeline_run_id=run_id, **summary))
        return run_id


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path / "home")


def test_a_run_is_all_attempts_at_it(made):
    first = made.attempt("sums", "failed", 9, tag="sums", status="failed", mlflow_run_id="m1")
    second = made.attempt(
        "sums-resumed-1", "completed", 5, tag="sums", status="improved", mlflow_run_id="m1", difference=GAIN,
        seconds={"total": 60.0}, tokens=100,
    )  # fmt: skip
    [run] = list_runs(made.home).runs
    assert (run.name, run.status, [each.id for each in run.attempts]) == ("sums", "improved", [second, first])
    assert run.seconds == 3660  # an hour by the times of the attempt, and what the summary says
    assert (run.tokens, run.gpu_hours) == (100, 1.5)
    assert (run.version, run.aliases) == (("tiny", "2"), ())
    assert run.summary.difference == GAIN


def test_gpu_hours_that_an_earlier_rlft_has_written_are_read(made):
    made.attempt("sums", "completed", 9, status="improved", mlflow_run_id="m2")
    made.attempt("other", "completed", 9, status="improved", mlflow_run_id="m3")
    assert {run.name: run.gpu_hours for run in list_runs(made.home).runs} == {"sums": 0.0, "other": None}


def test_the_last_sign_of_life_is_the_newest_of_a_run_s_files(made):
    run_id = made.attempt("sums", "running", 9, status="running")
    for file in (made.home.root / "runs" / "sums" / "run.json", made.home.summary_file(run_id)):
        os.utime(file, (1.8e9, 1.8e9))
        assert last_sign(made.home, run_id, "sums") == datetime.fromtimestamp(1.8e9, UTC)
        os.utime(file, (1.7e9, 1.7e9))
    assert last_sign(made.home, "another", "none") is None


def test_what_became_of_runs(made):
    made.attempt("new", "running", 0, tag="new")
    alive = made.attempt("alive", "running", 2, tag="alive")
    note_process(made.home, alive, "alive")
    dead = made.attempt("dead", "running", 0.001, tag="dead")  # it has just begun, and its process is gone
    note = Note(dead, "dead", 1, 0.0)
    (made.home.root / "runs" / f"{dead}.process.json").write_text(json.dumps(asdict(note)))
    made.attempt("killed", "running", 3, tag="killed", status="running")
    made.attempt("failed", "failed", 4, status="failed", error="no")
    made.attempt("hard", "completed", 5, status="too_hard", mlflow_run_id="m2")
    made.attempt("bare", "completed", 6)
    made.attempt("my cut", "failed", 7, tag="my cut", status="failed")
    made.attempt("my cut-resumed-1", "failed", 6.5, tag="my cut", status="interrupted", error="interrupted")
    runs = list_runs(made.home).runs
    assert {run.name: run.status for run in runs} == {
        "new": "running", "dead": "killed", "alive": "running", "killed": "killed", "failed": "failed",
        "hard": "too_hard", "bare": "finished", "my cut": "interrupted",
    }  # fmt: skip
    assert [run.name for run in runs if run.is_resumable] == ["dead", "killed", "failed", "my cut"]
    assert {run.name: run.again for run in runs if run.again} == {"my cut": "rlft resume 'my cut'"}
    assert next(run for run in runs if run.name == "hard").aliases == ("challenger", "champion")
    assert json.loads(json.dumps(to_json(list_runs(made.home))))[0]["name"] == "new"


def test_a_replay_that_was_cut_short_is_interrupted_and_names_its_command(made):
    def replay(name, state, **told):
        run_id = made.attempt(name, state, 3, tag=name, pipeline="x")
        summary = RetrainSummary("retrain", name, "sums", "id", pipeline_run_id=run_id, **told)
        keep_replay(made.home, summary)

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


def test_past_champions_and_versions_that_wait_are_marked(made):
    """Version 2 was champion and was rolled back from; version 3 waits, until somebody has decided."""
    for name, run in (("one", "m1"), ("two", "m2")):
        made.attempt(name, "completed", 3, mlflow_run_id=run, status="improved")
    person = Person(name="ann")
    first, later = (datetime(2026, 11, day, tzinfo=UTC) for day in (1, 2))
    promoted = Change(kind="promotion", to="2", who=person, at=first)
    back = Change(kind="rollback", before="2", to="1", who=person, at=later)
    with closing(sqlite3.connect(made.home.root / "mlflow.db", isolation_level=None)) as database:
        database.execute("UPDATE registered_model_aliases SET version = 1 WHERE alias = 'champion'")
        for change in (promoted, back):
            note = ("tiny", f"rlft.change.{change.kind}", change.model_dump_json())
            database.execute("INSERT INTO registered_model_tags VALUES (?, ?, ?)", note)
        database.execute("INSERT INTO model_version_tags VALUES ('tiny', 3, 'rlft.approval', 'pending')")
        marks = {run.name: run.marks for run in list_runs(made.home).runs}
        assert marks == {"one": ("was champion",), "two": ("waits for approval",)}
        database.execute("""INSERT INTO model_version_tags VALUES ('tiny', 3, 'rlft.verdict', '{}')""")
        # A verdict that is damaged says nothing, and `rlft approve` takes the version still.
        assert {run.name: run.marks for run in list_runs(made.home).runs}["two"] == ("waits for approval",)
        verdict = Change(kind="rejection", to="3", who=person, at=later).model_dump_json()
        database.execute("UPDATE model_version_tags SET value = ? WHERE key = 'rlft.verdict'", (verdict,))
        assert {run.name: run.marks for run in list_runs(made.home).runs}["two"] == ()


DAMAGES = {"missing": None, "empty": "", "half": '{"status": "impro', "null": "null", "types": '{"status": 3}'}


def mlflow(made, script):
    with closing(sqlite3.connect(made.home.root / "mlflow.db")) as database:
        database.executescript(script)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_run_whose_summary_is_damaged_is_known_by_its_tag_in_mlflow_and_the_damage_is_told(made, damage):
    run_id = made.attempt("two", "completed", 5, status="improved", mlflow_run_id="m2", difference=GAIN)
    file = made.home.summary_file(run_id)
    file.unlink() if DAMAGES[damage] is None else file.write_text(DAMAGES[damage])
    mlflow(made, f"INSERT INTO tags VALUES ('mlflow.rlft.root_run', '{run_id}', 'm2')")
    listing = list_runs(made.home)
    [run] = listing.runs
    assert (run.status, run.version, run.mlflow_runs) == ("finished", ("tiny", "3"), ("m2",))
    assert why_kept(run, resumable_too=True).startswith("tiny 3 is challenger and tiny 3 is champion")
    [said] = listing.damaged
    assert said.startswith(f"{file}: the summary of two is {'gone' if damage == 'missing' else 'damaged'}, and its")
    assert listing.problems == []


def test_all_runs_of_an_evaluation_are_known_by_their_tags_and_no_others(made):
    run_id = made.attempt("look", "completed", 1, pipeline="e")
    mlflow(
        made,
        f"INSERT INTO tags VALUES ('mlflow.rlft.root_run', '{run_id}', 'm5'), "
        f"('rlft.root_run', '{run_id}/cell/model', 'm6'), ('mlflow.rlft.root_run', '{run_id}0', 'm7')",
    )
    listing = list_runs(made.home)
    assert listing.runs[0].mlflow_runs == ("m5", "m6")
    assert ["the summary of look is gone" in said for said in listing.damaged] == [True]


def test_a_run_stays_where_it_cannot_be_known_whether_it_made_the_champion(made):
    made.attempt("lost", "completed", 5)
    assert why_kept(list_runs(made.home).runs[0], resumable_too=True) is None  # no version there is of rlft's making
    mlflow(made, "INSERT INTO model_version_tags VALUES ('tiny', 3, 'rlft.weights_hash', 'h')")
    assert why_kept(list_runs(made.home).runs[0], resumable_too=True).startswith(
        "its summary cannot be read, MLflow has no run of it, and of which run tiny 3 is made is not known; remove the"
    )
    mlflow(made, "INSERT INTO tags VALUES ('mlflow.rlft.root_run', 'another', 'm2')")
    assert why_kept(list_runs(made.home).runs[0], resumable_too=True) is None


@pytest.mark.parametrize("stays", [True, False])
def test_a_run_is_known_by_the_record_of_the_version_that_it_made(made, stays):
    run_id = made.attempt("lost", "completed", 5)
    record = json.dumps({"rlft.weights_hash": "h", "zenml.run_id": run_id if stays else "another"})
    mlflow(made, "INSERT INTO model_version_tags VALUES ('tiny', 3, 'mlflow.rlft.record', 'own')")
    mlflow(made, f"INSERT INTO registered_model_tags VALUES ('tiny', 'mlflow.rlft.record.own', '{record}')")
    said = why_kept(list_runs(made.home).runs[0], resumable_too=True)
    assert (said is not None and said.startswith("tiny 3 is of this run, and has an alias; remove the")) == stays


def test_an_alias_of_an_older_version_of_a_run_counts_too(made):
    with closing(sqlite3.connect(made.home.root / "mlflow.db")) as database:
        database.executescript(
            "INSERT INTO model_versions VALUES ('tiny', 4, 'm2'); "
            "UPDATE registered_model_aliases SET version = 4 WHERE alias = 'challenger'"
        )
    made.attempt("two", "completed", 5, status="improved", mlflow_run_id="m2")
    [run] = list_runs(made.home).runs
    assert (run.version, run.aliases) == (("tiny", "4"), ("challenger", "champion"))
    assert why_kept(run, resumable_too=True).startswith("tiny 4 is challenger and tiny 3 is champion; remove the")


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


@pytest.mark.parametrize(
    ("width", "left_out"),
    [  # 37 of the name, 12 of the status, 20 of the gain, 10 of the day, 10 of "challenger", 6 of the cost, and 5 gaps
        (100, set()),
        (99, {"cost"}),
        (93, {"cost"}),
        (92, {"version"}),  # 37 + 12 + 20 + 10 + 6, and 4 gaps: 89
        (82, {"version", "cost"}),
        (80, {"began", "version"}),  # 37 + 12 + 20 + 6, and 3 gaps: 78
        (70, {"before → after", "version"}),  # 37 + 12 + 10 + 6, and 3 gaps: 68
    ],
)
def test_the_table_gives_names_their_room_and_leaves_out_other_columns(made, width, left_out):
    for number in range(3):
        made.attempt(
            f"press-releases-20261123-07245{number}-423787", "completed", number, status="not_improved",
            mlflow_run_id="m2", difference=GAIN, seconds={"total": 5000.0},
        )  # fmt: skip
    text = StringIO()
    show_runs(Terminal(file=text, width=width), list_runs(made.home).runs, limit=2)
    lines = text.getvalue().splitlines()
    table = [line for line in lines if "no room for" not in line and "limit" not in line]
    assert max(map(len, table)) <= width
    assert "2 of 3 runs" in lines[-1]
    parts = {
        "run": "press-releases-20261123-072450-423787 ", "status": "not_improved", "began": "20", "cost": "83 min",
        "before → after": "+0.50 [+0.25, +0.75]", "version": "challenger",
    }  # fmt: skip
    headings = {heading for heading in parts if heading in table[0]}
    assert set(parts) - headings == left_out
    assert {part for part in parts.values() if part in text.getvalue()} >= {parts[heading] for heading in headings}
    assert len(table) <= 1 + 2 * 3  # no name, which has room, is folded: the version has three lines
    assert ("no room for: " in text.getvalue()) == bool(left_out)


def test_runs_of_a_sweep_name_it(made):
    result = Difference(metric="accuracy", before=0, after=1, mean=1, ci_low=0, ci_high=1, tasks=40)
    for number, difference in ((1, None), (2, result)):
        given = {"status": "improved", "mlflow_run_id": f"m{number}", "difference": difference}
        made.attempt(f"r{number}", "completed", number, **given)
    made.attempt("alone", "completed", 5, status="improved", mlflow_run_id="m3")
    with closing(sqlite3.connect(made.home.root / "mlflow.db")) as database:
        database.executescript(
            "INSERT INTO runs VALUES ('s', 'seeds'), ('e', 'no sweep'), ('m1', 'r1'), ('m2', 'r2'), ('m3', 'alone'); "
            "INSERT INTO tags VALUES ('rlft.sweep', 'seed=1,2', 's'), ('mlflow.parentRunId', 's', 'm1'), "
            "('mlflow.parentRunId', 's', 'm2'), ('mlflow.parentRunId', 'e', 'm3')"
        )
    listing = list_runs(made.home)
    assert [(run["name"], run["sweep"]) for run in to_json(listing)] == [
        ("r1", "seeds"), ("r2", "seeds"), ("alone", None)
    ]  # fmt: skip
    assert sweeps_of(listing.runs) == {"seeds": (["r2", "r1"], ["r2"])}  # r1 has no result
    text = StringIO()
    show_runs(Terminal(file=text, width=80), listing.runs, limit=0)
    names = [line[: len("in seeds ")].strip() for line in text.getvalue().splitlines()]
    assert [name for name in names if name] == ["run", "r1", "in seeds", "r2", "in seeds", "alone"]


def test_a_name_that_leaves_no_room_for_the_status_is_folded(made):
    made.attempt("x" * 90, "completed", 1, status="improved")
    text = StringIO()
    show_runs(Terminal(file=text, width=40), list_runs(made.home).runs, limit=0)
    first, second, third, *_ = text.getvalue().splitlines()
    assert (first.split(), second.split(), third.split()) == (["run", "status"], ["x" * 31, "improved"], ["x" * 31])


@pytest.mark.parametrize(("seconds", "said"), [(0, "0 s"), (99, "99 s"), (100, "2 min"), (7200, "2.0 h")])
def test_times(seconds, said):
    assert duration(seconds) == said


def test_the_cost_names_what_is_known(made):
    made.attempt("sums", "completed", 1, mlflow_run_id="m1", status="improved", tokens=12_345)
    assert cost(list_runs(made.home).runs[0]) == "60 min\n1.5 GPU h\n12.3k tokens"


def test_replays_are_listed_by_their_kind_and_are_not_resumed(made):
    run_id = made.attempt("again", "failed", 3, tag="again", pipeline="x")
    summary = RetrainSummary("retrain", "again", "first", "1", pipeline_run_id=run_id, mlflow_run_id="m1")
    keep_replay(made.home, summary)
    made.attempt("first", "failed", 4, tag="first")
    again, first = list_runs(made.home).runs
    assert (again.kind, again.mlflow_runs, again.is_resumable) == ("retrain", ("m1",), False)
    assert (first.kind, first.is_resumable) == ("training", True)
    assert [file.name for file in own_files(made.home, again)] == [f"{run_id}.replay.json", "again"]
    terminal = Terminal(file=StringIO(), width=100)
    show_runs(terminal, [again, first], 0)
    assert "retrain" in terminal.file.getvalue()


def test_runs_of_a_stack_say_who_began_them(made):
    made.attempt("one", "completed", 1, status="improved", mlflow_run_id="m1")
    runs = [replace(run, by="anna") for run in list_runs(made.home).runs]
    shown = {}
    for stack in (None, "my team"):
        text = StringIO()
        show_runs(Terminal(file=text, width=150), runs, 0, stack)
        shown[stack] = text.getvalue()
    assert "anna" not in shown[None]  # in a home all are of its owner
    assert "anna" in shown["my team"]
    assert runs[0].as_json()["by"] == "anna"
    text = StringIO()
    show_runs(Terminal(file=text, width=150), [], 0, "my team")
    assert "no runs on my team; `rlft run configs/demo.yaml --stack 'my team'` starts one" in text.getvalue()
