"""cli.sweep: what is told of a sweep at its end. With real runs: tests/e2e/test_sweep.py."""

from __future__ import annotations

import json
from io import StringIO

from cli.result import drawn
from cli.sweep import _tell
from pipelines.sweep import SweptRun, table_of
from rlft.reporting.terminal import Terminal

KNOWN = {"name": "rates", "status": "killed", "mlflow_run_id": None}


def test_what_the_runs_came_to_is_told_although_the_summary_cannot_be_written(tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()  # no folder, so that nothing can be written below it
    runs = [SweptRun("one", {"seed": "1"}, 1, None)]
    _tell(KNOWN, runs, ["one", "two"], "", file / "summary.json", as_json=False)
    said = capsys.readouterr()
    assert "one ended with exit code 1 (failed)." in said.out
    assert "two has not begun." in said.out
    assert "could not be written to" in said.err


def test_the_summary_of_a_sweep_names_the_runs_that_have_not_begun(tmp_path):
    runs = [SweptRun("one", {}, 130, None)]
    _tell(KNOWN, runs, ["one", "two", "three"], "", tmp_path / "s.json", as_json=False)
    kept = json.loads((tmp_path / "s.json").read_text())
    assert (kept["planned"], kept["not_begun"]) == (3, ["two", "three"])


def test_a_narrow_terminal_folds_what_tells_settings_apart():
    console = Terminal(file=StringIO(), width=80)
    runs = [SweptRun("r", {"training.learning_rate": rate}, 1, None) for rate in ("3e-4", "1.0")]
    runs += [SweptRun("r", {"training.learning_rate": "2e-4", "rollout.temperature": "0.75"}, 1, None)]
    console.print(drawn(table_of(runs, title="rates")))
    said = console.file.getvalue()
    assert "…" not in said
    first_column = "".join(line[:18].strip() for line in said.splitlines()[2:])
    assert first_column == "learning_rate=3e-4learning_rate=1.0learning_rate=2e-4,temperature=0.75"
