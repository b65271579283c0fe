"""pipelines.gate: a run says which tasks have changed their split since the last run of its name."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from mlops.registry.noted_tasks import HASHES, hashes_by_split
from mlops.tracking.run import Tracker
from pipelines.gate import say_what_moved
from rlft.config import Config
from rlft.types import TaskSet
from tests.factories import make_task

CONFIG = Config.model_validate(
    {
        "name": "moving",
        "tasks": {"source": "jsonl", "path": "rows.jsonl"},
        "environment": {"name": "rlft.environments.gsm8k:Gsm8k"},
        "policy": {"model": "any"},
    }
)
TASKS = [make_task(f"t{n}", prompt=f"question {n}") for n in range(8)]


def dealt(gate: set[int]) -> TaskSet:
    splits = ("gate" if number in gate else "train" for number in range(len(TASKS)))
    return TaskSet(tuple(dataclasses.replace(t, split=s) for t, s in zip(TASKS, splits, strict=True)), "f")


@pytest.fixture(scope="module")
def begin(tmp_path_factory):
    """Opens the MLflow run of a pipeline run, which notes its tasks once it has asked what moved."""
    folder = tmp_path_factory.mktemp("moving")

    def run(tasks: TaskSet):
        root = f"root{len(list(folder.glob('run*')))}"
        (folder / f"run-{root}").touch()
        tracker = Tracker.open(
            f"sqlite:///{folder}/mlflow.db",
            "moving",
            root,
            f"moving-{root}",
            artifact_location=f"file:{folder}/artifacts",
            tags={"rlft.name": "moving"},
            missed_path=folder / "missed.json",
        )
        moved = say_what_moved(tasks, CONFIG, tracker)
        tracker.log_json(HASHES, hashes_by_split(tasks))
        return moved, say_what_moved(tasks, CONFIG, tracker)

    return run


def test_tasks_that_moved_are_named_once_and_whether_the_gate_is_new(begin, caplog):
    caplog.set_level(logging.WARNING)
    assert begin(dealt({0, 1, 2})) == (None, None)  # nothing came before it, and a run is not compared with itself
    assert begin(dealt({0, 1, 2})) == (None, None)
    moved, again = begin(dealt({1, 2, 3}))
    assert moved == again
    assert moved == {
        "run": "moving-root1",
        "tasks": {"t0": ["gate", "train"], "t3": ["train", "gate"]},
        "same_gate": True,  # two of its three tasks were in the other one
    }
    assert "2 tasks are in another split than in the run moving-root1: 1 from gate to train" in caplog.text
    assert "The gate is mostly the same, so its looks go on" in caplog.text
    caplog.clear()
    moved, _ = begin(dealt({3, 4, 5, 6}))
    assert moved["same_gate"] is False
    assert "The gate is a new one, whose looks begin anew" in caplog.text


def test_a_store_that_does_not_answer_is_no_reason_to_stop(tmp_path):
    tracker = Tracker.open("http://127.0.0.1:9", "moving", "root", "run", missed_path=tmp_path / "missed.json")
    assert say_what_moved(dealt({0}), CONFIG, tracker) is None
