"""cli.sweep: what is told of a sweep at its end. With real runs: tests/e2e/test_sweep.py."""

from __future__ import annotations

from cli.sweep import _tell
from mlops.record.sweep import SweptRun


def test_what_the_runs_came_to_is_told_although_the_summary_cannot_be_written(tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()  # no folder, so that nothing can be written below it
    runs = [SweptRun("one", {"seed": "1"}, 1, None)]
    _tell("rates", "killed", None, runs, 2, file / "summary.json")
    said = capsys.readouterr()
    assert "one ended with exit code 1 (failed)." in said.out
    assert "could not be written to" in said.err
