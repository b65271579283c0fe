"""Runs that were killed are marked as failed, and told once."""

import json
import sqlite3
import subprocess
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from mlops.doctor import killed
from mlops.doctor.killed import check_runs
from mlops.home.databases import all_runs_ended
from mlops.home.folder import Home
from mlops.home.processes import Note, note_process
from mlops.runs import finding


@pytest.mark.parametrize(
    ("statuses", "ended"),
    [
        ([], True),
        (["completed", "failed", "cached", "stopped"], True),
        (["completed", "running"], False),
        (["initializing"], False),
        (["a status of another version"], False),  # ZenML itself is asked what it means
    ],
)
def test_zenml_is_asked_only_where_a_run_may_go_on(tmp_path, statuses, ended):
    home = Home(tmp_path)
    assert not all_runs_ended(home)  # no database
    file = tmp_path / "zenml" / "local_stores" / "default_zen_store" / "zenml.db"
    file.parent.mkdir(parents=True)
    with sqlite3.connect(file) as database:
        assert not all_runs_ended(home)  # no table
        database.execute("CREATE TABLE pipeline_run (id TEXT, status TEXT)")
        database.executemany("INSERT INTO pipeline_run VALUES ('x', ?)", [(status,) for status in statuses])
    assert all_runs_ended(home) is ended


@pytest.mark.parametrize("summary", ['{"status": "running", "seconds": {"total": 0.0}}', '{"status": "runn', ""])
def test_a_summary_that_was_left_running_or_damaged_says_that_the_run_was_killed(tmp_path, summary, monkeypatch):
    monkeypatch.setattr(killed, "all_runs_ended", lambda home: True)
    (tmp_path / "zenml").mkdir()
    home = Home(tmp_path)
    note_process(home, "a-1", "first")
    assert [finding.state for finding in check_runs(home)] == ["ok"]  # this process lives
    with subprocess.Popen(["true"]) as dead:
        pass
    (tmp_path / "runs" / "a-1.process.json").write_text(json.dumps(asdict(Note("a-1", "first", dead.pid, 1.0))))
    home.summary_file("a-1").write_text(summary)
    [finding] = check_runs(home)
    assert (finding.state, finding.fix) == ("warning", "rlft resume first")
    left = json.loads(home.summary_file("a-1").read_text())
    assert (left["status"], left["error"]) == ("failed", "the process was killed")
    assert [finding.state for finding in check_runs(home)] == ["ok"]
    assert [file.name for file in (tmp_path / "runs").iterdir()] == ["a-1.json"]
    note = Note("a-2", "second", dead.pid, 1.0, stack="my team")
    (tmp_path / "runs" / "a-2.process.json").write_text(json.dumps(asdict(note)))
    home.summary_file("a-2").write_text(summary)
    [finding] = check_runs(home)
    assert finding.fix == "rlft resume second --stack 'my team'"


def test_a_resume_that_was_killed_is_told_of_by_the_name_of_its_run(tmp_path, monkeypatch):
    monkeypatch.setattr(killed, "all_runs_ended", lambda home: False)
    monkeypatch.setattr(killed, "find_faults", lambda *_, **__: [])
    monkeypatch.setattr(killed, "connect", lambda *_: "uri")
    run = SimpleNamespace(id="7", name="first-resumed-101112-000001", config=SimpleNamespace(parameters={}))
    monkeypatch.setattr(finding, "killed_runs", lambda home: [run])
    monkeypatch.setattr(finding, "mark_failed", lambda *_: None)
    (tmp_path / "zenml").mkdir()
    [told] = check_runs(Home(tmp_path))
    assert (told.what, told.fix) == ("first was killed; it is marked as failed now", "rlft resume first")
