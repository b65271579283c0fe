"""What is read of past runs, from their files. With a real run: tests/e2e/test_estimate.py."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cli.past_work import past_runs
from mlops.home.folder import Home
from mlops.runs.store import RunStore, as_parameter
from mlops.summary.file import keep_summary
from mlops.summary.summary import Seconds, Summary
from rlft.estimation.records import PastStep
from tests.mlops.made import make_run
from tests.rlft.estimation.made import make_config

STEPS = ("generate_rollouts_r000", "train_grpo_r000", "generate_rollouts_trained")


class Made:
    """A home with runs of one minute each, of which every step takes 1.5 s."""

    def __init__(self, root):
        self.home, self.count = Home(root), 0

    def run(self, name, config=None, status="completed", pipeline="train", steps=STEPS, cached=False, **changes):
        """Add a run, a minute after the one before."""
        self.count += 1
        run_id, began = f"{self.count:032x}", datetime(2026, 11, 26, 10, self.count, tzinfo=UTC)
        settings = {**as_parameter(config or make_config()), **changes}
        store = RunStore(self.home)
        run = store.start(make_run(run_id, name, began, pipeline, config=settings), name)
        times = {"began": f"{began + timedelta(seconds=10)}", "ended": f"{began + timedelta(seconds=11.5)}"}
        sampled = {"rollouts": 10, "sampled_tokens": 300}
        known = {
            step: {**times, "cached": cached, "outputs": {}, **(sampled if step.startswith("generate") else {})}
            for step in steps
        }
        run.keep_steps(known)
        if status != "running":
            store.end(name, run_id, status, began + timedelta(seconds=59.5))
        return run_id

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
    told = Summary(status="improved", pipeline_run_id=key, seconds=Seconds(total=44.0), memory_megabytes=900.0)
    keep_summary(made.home.run_folder("first"), told)
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
    made.run("evaluation", pipeline="evaluate")
    made.run("another model", make_config(policy={"model": "y"}))
    made.run("from the cache", cached=True)
    made.run("stopped before its rounds", steps=("generate_rollouts_baseline",))
    made.run("of a newer rlft", format=9)
    made.run("with a setting that is gone", gone=1)
    made.run("good")
    assert made.names() == ["good"]


def test_a_home_without_runs(tmp_path):
    assert past_runs(Home(tmp_path), make_config()) == []
