"""`rlft run --sweep`: one run for each value, and what ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.e2e.conftest import TINY

pytestmark = pytest.mark.slow

RUNS = """
from mlflow import MlflowClient
found = MlflowClient()
runs = found.search_runs([e.experiment_id for e in found.search_experiments()])
print(json.dumps([{"id": r.info.run_id, "name": r.info.run_name, "status": r.info.status, "tags": r.data.tags}
                  for r in runs]))
"""


@pytest.fixture(scope="module")
def swept(make_home, short_config):
    home = make_home("sweep")
    command = ("run", str(short_config), "--sweep", "seed=0,1", "--name", "tries", "--tag", "team=a")
    return home, home.module("cli", *command)


def test_each_value_has_a_run(swept):
    home, done = swept
    assert done.returncode == 0, done.stderr
    runs = {run["name"]: run for run in home.query(RUNS)}
    assert sorted(runs) == ["tries-seed=0", "tries-seed=1"]
    assert {run["tags"]["team"] for run in runs.values()} == {"a"}
    assert all(" --set seed=" in run["tags"]["mlflow.source.name"] for run in runs.values())
    assert [run["status"] for run in runs.values()] == ["FINISHED"] * 2


def test_the_runs_are_listed_and_compared(swept):
    home, done = swept
    assert "rlft compare tries-seed=0 tries-seed=1" in done.stdout
    listed = {run["name"]: run for run in json.loads(home.module("cli", "runs", "--json").stdout)}
    assert sorted(listed) == ["tries-seed=0", "tries-seed=1"]
    compared = json.loads(home.module("cli", "compare", *listed, "--json").stdout)
    files = [home.folder / ".rlft/runs" / name / "summary.json" for name in listed]
    scores = [json.loads(file.read_text())["difference"]["mean"] for file in files]
    assert compared["gains"][0]["mean"] == pytest.approx(sum(scores) / 2, abs=1e-9)


def test_a_sweep_has_no_summary(swept, short_config):
    home, _ = swept
    done = home.module("cli", "run", str(short_config), "--sweep", "seed=0,1", "--json")
    assert (done.returncode, "a sweep has no summary" in done.stderr) == (2, True)


def test_runs_of_one_sweep_are_not_made_twice(swept, short_config):
    home, _ = swept
    again = home.module("cli", "run", str(short_config), "--sweep", "seed=0,1", "--name", "tries")
    assert again.returncode == 2
    assert "a run is called 'tries-seed=0' already" in " ".join(again.stderr.split())


def test_nothing_begins_if_one_of_the_configs_cannot_be_used(make_home):
    home = make_home("sweep")
    for values, said in (
        ("training.rounds=1,none", "training.rounds"),
        ("seed=1,1", "'seed=1,1' is no sweep"),
        ("environment.kwargs.api_key=hunter22,hunter23", "environment.kwargs.api_key: looks like a secret"),
    ):
        done = home.module("cli", "run", str(TINY), "--sweep", values)
        told = " ".join(done.stderr.split())
        assert (done.returncode, said in told, "hunter22" in told) == (2, True, False), told
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
    assert {run["name"] for run in home.query(RUNS)} <= {"cut-seed=0"}  # none if the signal came before it was opened
