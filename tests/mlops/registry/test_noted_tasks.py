"""What a run notes of its tasks is found again: what it trained on, and by the next run how they were dealt."""

from __future__ import annotations

import dataclasses
import json
import time

import pytest
from mlflow import MlflowClient

from mlops.registry.noted_tasks import HASHES, last_noted, note_tasks, trained_on
from rlft.gates.identity import task_hash
from rlft.types import TaskSet
from tests.mlflow_stores import new_store
from tests.rlft.gates.test_identity import tasks

NUMBERED = tasks(range(6))
DEALT = TaskSet((*NUMBERED[:4], *(dataclasses.replace(task, split="gate") for task in NUMBERED[4:])), "f")


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> MlflowClient:
    return MlflowClient(new_store(tmp_path_factory.mktemp("noted")))


def begin(client, experiment, name, *, noting=None):
    time.sleep(0.002)  # MLflow orders runs by milliseconds
    run = client.create_run(experiment, run_name=f"{name}-1", tags={"rlft.name": name}).info.run_id
    if noting is not None:
        note_tasks(Writer(client, run), noting)
    return run


class Writer:
    """Writes into one run as a tracker does."""

    def __init__(self, client, run):
        self.client, self.run = client, run

    def log_json(self, name, content):
        self.client.log_text(self.run, json.dumps(content), name)

    def set_tags(self, tags):
        for name, value in tags.items():
            self.client.set_tag(self.run, name, value)


def test_the_tasks_that_a_run_trained_on_are_read_back(client, tmp_path):
    experiment = client.create_experiment("hashes", artifact_location=str(tmp_path))
    assert trained_on(client.tracking_uri, begin(client, experiment, "a")) is None
    assert trained_on(client.tracking_uri, "0" * 32) is None  # a run that was removed since
    noted = begin(client, experiment, "a", noting=DEALT)
    assert trained_on(client.tracking_uri, noted) == {task_hash(task) for task in NUMBERED[:4]}


def test_the_newest_run_of_the_name_that_has_noted_its_tasks_is_found(client, tmp_path):
    experiment = client.create_experiment("last", artifact_location=str(tmp_path))
    where = client.tracking_uri, experiment, "a"
    own = begin(client, experiment, "a", noting=TaskSet((), "none"))
    assert last_noted(*where, without=own) is None
    begin(client, experiment, "a", noting=TaskSet(tuple(NUMBERED), "f"))
    begin(client, experiment, "a", noting=DEALT)
    begin(client, experiment, "b", noting=TaskSet((), "none"))
    begin(client, experiment, "a")  # it ended before it read its tasks
    found = last_noted(*where, without=own)
    assert found is not None
    assert found.run == "a-1"
    assert found.hashes["gate"] == [task_hash(task) for task in NUMBERED[4:]]


@pytest.mark.parametrize("content", ["[1, 2]", '{"train": 3}', '{"gate": ["00000000"]}', '{"train"', ""])
def test_notes_that_are_damaged_are_none(client, tmp_path, content):
    experiment = client.create_experiment(f"damaged {content}", artifact_location=str(tmp_path))
    run = begin(client, experiment, "a")
    client.log_text(run, content, HASHES)
    assert trained_on(client.tracking_uri, run) is None
    assert last_noted(client.tracking_uri, experiment, "a", without="") is None


def test_notes_that_were_changed_or_removed_are_told_and_none(client, tmp_path, caplog):
    experiment = client.create_experiment("changed", artifact_location=str(tmp_path))
    run = begin(client, experiment, "a", noting=DEALT)
    (file,) = tmp_path.rglob(HASHES)
    file.write_text('{"train": []}')  # valid, and would say that the champion has seen no task of the gate
    assert trained_on(client.tracking_uri, run) is None
    assert last_noted(client.tracking_uri, experiment, "a", without="") is None
    file.unlink()
    assert trained_on(client.tracking_uri, run) is None
    told = [record.message.split(f" of the MLflow run {run} ")[1] for record in caplog.records]
    unknown = "so the tasks of that run are not known"
    assert told == [*[f"differs from the seal in its tag, {unknown}"] * 2, f"was removed, {unknown}"]
