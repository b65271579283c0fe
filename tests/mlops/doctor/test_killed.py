"""Runs that were killed are marked as failed, and told once."""

import json
import sqlite3
import subprocess
from dataclasses import asdict

import pytest

from mlops.doctor import killed
from mlops.doctor.killed import check_runs
from mlops.home.databases import all_runs_ended
from mlops.home.folder import Home
from mlops.home.processes import Note, note_process


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
