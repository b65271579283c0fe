"""What is read of past runs, from tables of ZenML's kind. With a real run: tests/e2e/test_estimate.py."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from mlops.home.databases import ZENML
from mlops.home.folder import Home
from mlops.runs.settings import as_parameter
from mlops.stored.past_work import past_runs
from mlops.summary.file import keep_summary
from mlops.summary.sections import Seconds
from mlops.summary.summary import Summary
from rlft.estimation.records import PastStep
from tests.rlft.estimation.made import make_config

SCHEMA = """
CREATE TABLE pipeline (id TEXT, name TEXT);
CREATE TABLE pipeline_run (id TEXT, name TEXT, status TEXT, created TEXT, start_time TEXT, end_time TEXT,
  pipeline_id TEXT, snapshot_id TEXT);
CREATE TABLE pipeline_snapshot (id TEXT, pipeline_configuration TEXT);
CREATE TABLE step_run (id TEXT, name TEXT, status TEXT, start_time TEXT, end_time TEXT, pipeline_run_id TEXT);
CREATE TABLE step_run_output_artifact (step_id TEXT, artifact_id TEXT);
CREATE TABLE run_metadata (id TEXT, key TEXT, value TEXT);
CREATE TABLE run_metadata_resource (resource_id TEXT, run_metadata_id TEXT);
INSERT INTO pipeline VALUES ('p', 'train'), ('q', 'evaluate');
INSERT INTO run_metadata VALUES ('m', 'rollouts', '10'), ('n', 'sampled_tokens', '300'), ('o', 'seal', '"x"');
INSERT INTO run_metadata_resource VALUES ('a', 'm'), ('a', 'n'), ('a', 'o');
"""
STEPS = ("generate_rollouts_r000", "train_grpo_r000", "generate_rollouts_trained")


class Made:
    """A home with runs of one minute each, of which every step takes 1.5 s."""

    def __init__(self, root):
        self.home, self.count = Home(root), 0
        ZENML.file(self.home).parent.mkdir(parents=True)
        with self.opened() as database:
            database.executescript(SCHEMA)

    def opened(self):
        return closing(sqlite3.connect(ZENML.file(self.home)))

    def run(self, name, config=None, status="completed", pipeline="p", steps=STEPS, step_status="completed", **changes):
        """Add a run, a minute after the one before."""
        self.count += 1
        key, at = f"{self.count:032x}", f"2026-11-26 10:{self.count:02d}"
        parameters = {"config": {**as_parameter(config or make_config()), **changes}}
        with self.opened() as database:
            database.execute(
                "INSERT INTO pipeline_snapshot VALUES (?, ?)", (key, json.dumps({"parameters": parameters}))
            )
            row = (key, name, status, f"{at}:00.000000", f"{at}:00.000000", f"{at}:59.500000", pipeline, key)
            database.execute("INSERT INTO pipeline_run VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            for number, step in enumerate(steps):
                times = f"{at}:10.000000", f"{at}:11.500000"
                database.execute(
                    "INSERT INTO step_run VALUES (?, ?, ?, ?, ?, ?)", (f"{key}{number}", step, step_status, *times, key)
                )
                if step.startswith("generate"):
                    database.execute("INSERT INTO step_run_output_artifact VALUES (?, 'a')", (f"{key}{number}",))
            database.commit()
        return key

    def names(self, config=None, **more):
        return [run.name for run in past_runs(self.home, config or make_config(), **more)]


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path)


def test_steps_with_what_they_took_and_stored(made):
    made.run("first")
    [run] = past_runs(made.home, make_config())
    assert sorted(run.steps, key=lambda step: step.name) == [
        PastStep("generate_rollouts_r000", 1.5, 10, 300),
        PastStep("generate_rollouts_trained", 1.5, 10, 300),
        PastStep("train_grpo_r000", 1.5),
    ]
    assert run.seconds == 59.5
    assert run.settings["training"]["num_generations"] == 5
    assert run.memory is None


def test_a_summary_knows_seconds_and_memory(made):
    key = made.run("first")
    dashed = f"{key[:8]}-{key[8:12]}-{key[12:16]}-{key[16:20]}-{key[20:]}"
    (made.home.root / "runs").mkdir()
    told = Summary(status="improved", pipeline_run_id=dashed, seconds=Seconds(total=44.0), memory_megabytes=900.0)
    keep_summary(made.home, told)
    [run] = past_runs(made.home, make_config())
    assert (run.seconds, run.memory, run.gpu_memory) == (44.0, 9e8, None)


def test_the_newest_come_first_and_no_more_than_asked_for(made):
    for name in ("first", "second", "third"):
        made.run(name)
    assert made.names() == ["third", "second", "first"]
    assert made.names(most=2) == ["third", "second"]


def test_runs_that_say_nothing_of_this_config(made):
    made.run("another experiment", make_config(name="n"))
    made.run("killed", status="running")
    made.run("evaluation", pipeline="q")
    made.run("another model", make_config(policy={"model": "y"}))
    made.run("from the cache", step_status="cached")
    made.run("stopped before its rounds", steps=("generate_rollouts_baseline",))
    made.run("of a newer rlft", format=9)
    made.run("with a setting that is gone", gone=1)
    made.run("good")
    assert made.names() == ["good"]


def test_a_run_of_before_configs_had_format_versions(made):
    made.run("old", format=None)
    assert made.names() == ["old"]


def test_a_home_without_runs_and_one_whose_database_is_broken(tmp_path, caplog):
    home = Home(tmp_path)
    assert past_runs(home, make_config()) == []
    assert caplog.text == ""
    ZENML.file(home).parent.mkdir(parents=True)
    ZENML.file(home).write_bytes(b"no database at all" * 100)
    assert past_runs(home, make_config()) == []
    assert "past runs are not known" in caplog.text
