"""The page of a real run, as a file and in MLflow."""

from __future__ import annotations

import re

import pytest

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]


def test_a_run_has_a_page(finished, tmp_path):
    home, result = finished
    run = result.summary["pipeline_run_id"]
    file = tmp_path / "report.html"
    done = home.module("cli", "report", run, "--to", str(file))
    assert done.returncode == 0, done.stderr
    page = file.read_text()
    difference = result.summary["difference"]
    assert f"on {difference['tasks']} test tasks" in page
    assert page.count("<svg") >= 5
    assert page.count('class="attempt"') == 12  # all of the test split, half of them as the best
    assert f"models:/{result.summary['promotion']['name']}/{result.summary['promotion']['version']}" in page
    assert "generator: gcd" in page
    assert re.search(r"With the same code \(rlft [^,]+, zenml [^)]*torch [^)]*\), tasks and machine", page)
    assert len(page) < 1_000_000
    (stored,) = home.query(f"""
from mlflow.artifacts import load_text
print(json.dumps([load_text("runs:/{result.summary["mlflow_run_id"]}/report.html")]))
""")
    # The same but for what is written down after it: the seconds of the whole run.
    assert stored.split('id="curves"')[1].split('id="time"')[0] == page.split('id="curves"')[1].split('id="time"')[0]
    missing = home.module("cli", "report", "no-such-run")
    assert (missing.returncode, "no run is called" in missing.stderr) == (2, True)


def test_zenml_shows_the_page(finished):
    home, result = finished
    shown, kind, page, logged = home.query(f"""
from mlflow.artifacts import load_text
from zenml.client import Client
step = Client().get_pipeline_run("{result.summary["pipeline_run_id"]}").steps["write_report"]
(report,) = step.outputs["report"]
(shown,) = report.visualizations
logged = load_text("runs:/{result.summary["mlflow_run_id"]}/report.html")
print(json.dumps([shown.uri, shown.type, report.load(), logged]))
""")
    assert (shown.endswith("report.html"), kind, logged) == (True, "html", page)  # it is made once
    difference = result.summary["difference"]
    assert f"on {difference['tasks']} test tasks" in page
