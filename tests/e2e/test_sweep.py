"""`rlft run --sweep`: runs nested in one, whose means stand first, and what ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from mlops.summary.file import clear_target
from tests.e2e.conftest import TINY

pytestmark = pytest.mark.slow

NESTED = """
from mlflow import MlflowClient
found = MlflowClient()
runs = found.search_runs([e.experiment_id for e in found.search_experiments()])
print(json.dumps([{"id": r.info.run_id, "name": r.info.run_name, "status": r.info.status, "tags": r.data.tags,
                   "metrics": r.data.metrics} for r in runs]))
"""


@pytest.fixture(scope="module")
def swept(make_home, short_config):
    home = make_home("sweep")
    return home, home.rlft(
        "run", str(short_config), "--sweep", "seed=0,1", "--name", "tries", "--tag", "team=a", "--json"
    )


def test_the_runs_are_nested_in_one_that_holds_their_mean(swept):
    home, done = swept
    assert done.code == 0, done.output
    runs = {run["name"]: run for run in home.query(NESTED)}
    assert sorted(runs) == ["tries", "tries-seed=0", "tries-seed=1"]
    above, children = runs["tries"], [runs["tries-seed=0"], runs["tries-seed=1"]]
    assert {child["tags"]["mlflow.parentRunId"] for child in children} == {above["id"]}
    commands = [child["tags"]["mlflow.source.name"] for child in children]
    assert all(" --set seed=" in command for command in commands)
    assert {child["tags"]["team"] for child in children} == {"a"}
    assert [run["status"] for run in runs.values()] == ["FINISHED"] * 3
    scores = [child["metrics"]["0_result/after"] for child in children]
    assert above["metrics"]["0_result/after"] == pytest.approx(sum(scores) / 2, abs=1e-4)
    points = home.query(
        f"found = mlflow_client.get_metric_history({above['id']!r}, '0_result/after')\n"
        "print(json.dumps([point.step for point in found]))"
    )
    assert points == [0]  # several would be drawn as a curve
    gains = [child["metrics"]["0_result/gain"] for child in children]
    assert above["metrics"]["0_result/gain"] == pytest.approx(sum(gains) / 2, abs=1e-4)
    starts = [child["metrics"]["0_result/before"] for child in children]
    assert above["metrics"]["0_result/before"] == pytest.approx(sum(starts) / 2, abs=1e-4)
    assert above["tags"]["mlflow.note.content"].startswith("**2 of 2 runs of one setting have a result")
    assert above["tags"]["rlft.sweep"] == "seed=0,1"
    assert above["tags"]["mlflow.source.name"].startswith("rlft")
    assert above["tags"]["mlflow.user"] == children[0]["tags"]["mlflow.user"]


def test_the_summary_names_the_runs(swept):
    home, done = swept
    assert (done.summary["name"], done.summary["planned"]) == ("tries", 2)
    assert [run["changes"] for run in done.summary["runs"]] == [{"seed": "0"}, {"seed": "1"}]
    assert all((home.folder / ".rlft/runs" / run["name"] / "summary.json").is_file() for run in done.summary["runs"])
    assert json.JSONDecoder().raw_decode(done.output)[0] == done.summary  # stdout comes first, and has nothing else
    listed = json.loads(home.module("cli", "runs", "--json").stdout)
    assert {run["name"]: run["sweep"] for run in listed} == {"tries-seed=0": "tries", "tries-seed=1": "tries"}
    (setting,) = done.summary["settings"]
    assert (setting["runs"], setting["scored"], setting["changes"]) == (2, 2, {})


def test_the_next_command_may_write_the_same_file(swept, tmp_path):
    _, done = swept
    assert done.summary["status"] == "finished"
    file = tmp_path / "summary.json"
    file.write_text(json.dumps(done.summary))
    clear_target(file)
    assert not file.exists()


@pytest.mark.parametrize("command", [("compare", "tries", "x"), ("report", "tries"), ("resume", "tries")])
def test_the_name_of_a_sweep_leads_to_its_runs(swept, command):
    home, _ = swept
    done = home.module("cli", *command)
    said = " ".join(done.stderr.split())
    assert (done.returncode, "'tries' is a sweep of 2 runs, and no run" in said) == (2, True), said
    assert "name one of its runs:" in said


def test_runs_of_one_sweep_are_not_made_twice(swept, short_config):
    home, _ = swept
    again = home.rlft("run", str(short_config), "--sweep", "seed=0,1", "--name", "tries")
    assert again.code == 2
    assert "a run is called 'tries-seed=0' already" in again.output


def test_nothing_begins_if_one_of_the_configs_cannot_be_used(make_home):
    home = make_home("sweep")
    for values, said in (
        ("training.rounds=1,none", "training.rounds"),
        ("name=a,b", "the runs would be in different experiments"),
        ("seed=1", "these make 1 run(s)"),
        ("environment.kwargs.api_key=hunter22,hunter23", "environment.kwargs.api_key looks like a secret"),
    ):
        done = home.rlft("run", str(TINY), "--sweep", values)
        assert (done.code, said in done.output, "hunter22" in done.output) == (2, True, False), done.output
    assert home.query("print(json.dumps(client.list_pipeline_runs().total))") == 0


def test_a_signal_ends_the_run_that_goes_on_and_the_sweep(make_home):
    home = make_home("sweep")
    command = [sys.executable, "-P", "-m", "cli", "run", str(TINY), "--sweep", "seed=0,1", "--name", "cut"]
    with subprocess.Popen(
        command, cwd=home.folder, env=home.environment(), stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 120
        while not list((home.folder / ".rlft" / "runs").glob("*/run.json")):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        os.kill(process.pid, signal.SIGTERM)
        said = process.communicate(timeout=120)[0]
    assert process.returncode == 128 + signal.SIGTERM
    assert "run 2 of 2" not in said
    assert "cut-seed=0 ended with exit code 143" in said
    assert "cut-seed=1 has not begun" in said
    found = home.query(NESTED)
    runs = {run["name"]: run["status"] for run in found}
    assert runs["cut"] == "KILLED"
    [status] = [run["tags"]["rlft.status"] for run in found if run["name"] == "cut"]
    assert status == "0 of 2 runs ended well; 1 not begun: cut-seed=1"
    assert set(runs) <= {"cut", "cut-seed=0"}  # the second is missing if the signal came before it was opened
