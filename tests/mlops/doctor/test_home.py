"""Runs that were killed are marked as failed, and told once; a home that cannot be used is told as broken."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict

import pytest

from mlops.doctor.home import check_home
from mlops.home.databases import ZENML
from mlops.home.folder import Home
from mlops.home.processes import Note, note_process
from tests.mlops.home.making import finish


@pytest.fixture
def home(tmp_path) -> Home:
    finish(home := Home(tmp_path))
    return home


@pytest.mark.parametrize("summary", ['{"status": "running", "seconds": {"total": 0.0}}', '{"status": "runn', ""])
def test_a_summary_that_was_left_running_or_damaged_says_that_the_run_was_killed(home, summary):
    note_process(home, "a-1", "first")
    assert [finding.state for finding in check_home(home)] == ["ok", "ok"]  # this process lives
    with subprocess.Popen(["true"]) as dead:
        pass
    note = Note("a-1", "first", dead.pid, 1.0, stack="my team")  # whose stores are not asked
    (home.root / "runs" / "a-1.process.json").write_text(json.dumps(asdict(note)))
    home.summary_file("a-1").write_text(summary)
    found = list(check_home(home))[-1]
    assert (found.state, "rlft resume first --stack 'my team'" in found.fix) == ("warning", True)
    left = json.loads(home.summary_file("a-1").read_text())
    assert (left["status"], left["error"]) == ("failed", "the process was killed")
    assert [finding.state for finding in check_home(home)] == ["ok", "ok"]


def test_a_home_without_its_database_is_broken_and_one_without_runs_is_not(home, tmp_path):
    assert [found.state for found in check_home(Home(tmp_path / "none"))] == ["ok"]
    (home.root / "zenml/local_stores/1-2-3-4-5").mkdir()
    ZENML.file(home).unlink()
    [found] = check_home(home)
    assert (found.state, "zenml.db is gone" in found.what) == ("broken", True)
