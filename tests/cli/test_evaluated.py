"""cli.evaluated: where the summary of an evaluation goes."""

from __future__ import annotations

import json

from cli.evaluated import finish_evaluation
from mlops.home.folder import Home
from mlops.runs.evaluations import EvaluationSummary, evaluation_file, keep_evaluation


def test_a_summary_that_cannot_be_written_where_it_was_asked_for_is_told_and_named_where_it_is(tmp_path, capsys):
    home, file = Home(tmp_path / ".rlft"), tmp_path / "file"
    file.touch()  # no folder, so that nothing can be written below it
    keep_evaluation(home, EvaluationSummary("quick", "accuracy", 0, pipeline_run_id="id", status="finished"))
    finish_evaluation(home, "id", file / "summary.json", as_json=False)
    said = capsys.readouterr()
    assert f"Summary: {evaluation_file(home, 'id')}" in said.out.replace("\n", "")
    assert "could not be written to" in said.err
    finish_evaluation(home, "id", tmp_path / "summary.json", as_json=False)
    assert f"Summary: {tmp_path / 'summary.json'}" in capsys.readouterr().out.replace("\n", "")
    assert json.loads((tmp_path / "summary.json").read_text())["suite"] == "quick"
