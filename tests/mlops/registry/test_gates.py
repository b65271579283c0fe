"""How often a gate was looked at, and in which splits a run had its tasks."""

from __future__ import annotations

import dataclasses
import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from mlflow import MlflowClient

from mlops.registry.client import RegistryClient
from mlops.registry.gates import (
    HASHES,
    count_look,
    noted_tasks,
    past_looks,
    trained_on,
)
from mlops.registry.versions import open_name
from rlft.evaluation.gates import Look, task_hash
from rlft.types import TaskSet
from tests.mlflow_stores import new_store
from tests.rlft.evaluation.test_gates import tasks


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> MlflowClient:
    """A client of one MLflow, which is made once."""
    return RegistryClient(new_store(tmp_path_factory.mktemp("gates")))


def look(client, name, policy, numbers, looks=20):
    open_name(client, name)
    return count_look(client.tracking_uri, name, policy, tasks(numbers), looks).number


def test_a_policy_counts_once_and_keeps_its_number(client):
    found = [look(client, "once", policy, range(30)) for policy in ("a", "b", "a", "c", "b")]
    assert found == [1, 2, 1, 3, 2]  # a run that is resumed after others have looked does not change its decision


def test_looks_count_at_gates_that_share_more_than_half(client):
    assert look(client, "half", "a", range(100)) == 1
    assert look(client, "half", "b", range(50, 150)) == 1  # half are new
    assert look(client, "half", "c", range(49, 149)) == 3  # 51 were in the first, 99 in the second
    assert look(client, "half", "d", range(500, 600)) == 1
    assert look(client, "other model", "e", range(100)) == 1


def test_a_gate_made_of_halves_of_two_that_were_looked_at_is_no_new_one(client):
    for policy in range(3):
        look(client, "halves", f"a{policy}", range(100))
        look(client, "halves", f"b{policy}", range(100, 200))
    assert look(client, "halves", "c", range(50, 150)) == 7  # neither holds more than half, together they hold all
    assert look(client, "halves", "d", range(80, 180)) == 5  # b holds 80 and c 70: their 3 and 1 count; a holds only 20
    assert look(client, "halves", "e", [*range(40), *range(300, 360)]) == 1  # 40 of 100 are known
    assert look(client, "halves", "f", [*range(40), *range(300, 360)]) == 2  # and its own look does not change that


def test_what_is_spent_is_known_before_a_run_looks(client):
    where = (client.tracking_uri, "before")
    assert past_looks(*where, tasks(range(30))).number == 0  # no model of this name is registered yet
    look(client, "before", "a", range(30), looks=2)
    look(client, "before", "b", range(30), looks=4)
    found = past_looks(*where, tasks(range(5, 35)))
    assert (found.number, found.spent) == (2, 1 / 2 + 1 / 4)
    assert past_looks(*where, tasks(range(100, 130))).number == 0
    assert past_looks(*where, tasks(range(30))).number == 2  # asking is no look


def test_a_look_spends_its_share_of_the_chance_by_the_setting_it_was_made_with(client):
    open_name(client, "raised")

    def spent(policy, looks):
        return count_look(client.tracking_uri, "raised", policy, tasks(range(30)), looks)

    found = [spent("a", 2), spent("b", 4), spent("c", 8), spent("b", 16)]
    assert [each.number for each in found] == [1, 2, 3, 2]
    assert [each.spent for each in found] == [1 / 2, 3 / 4, 7 / 8, 3 / 4]


def test_a_look_that_is_refused_spends_nothing(client):
    open_name(client, "refused")
    where = (client.tracking_uri, "refused")
    count_look(*where, "a", tasks(range(30)), 4)
    found = count_look(*where, "b", tasks(range(30)), 1)  # 1/4 + 1 is more than all
    assert (found.number, found.spent, found.is_allowed) == (2, 5 / 4, False)
    assert past_looks(*where, tasks(range(30))) == Look(1, 1 / 4)
    assert count_look(*where, "b", tasks(range(30)), 4) == Look(2, 1 / 2)


def test_of_runs_that_look_at_once_none_is_missed(client):
    open_name(client, "at once")
    with ThreadPoolExecutor(4) as pool:
        numbers = sorted(pool.map(lambda number: look(client, "at once", f"policy{number}", range(20)), range(8)))
    # Each counts all that have noted theirs before: never fewer than its place, and never more than there are.
    assert all(place <= number <= 8 for place, number in enumerate(numbers, start=1))
    assert look(client, "at once", "last", range(20)) == 9


def test_a_look_that_was_killed_before_it_was_numbered_counts(client):
    look(client, "killed", "a", range(20))
    keys = client.get_registered_model("killed").tags
    (own,) = [key for key in keys if key.endswith(".a")]
    client.set_registered_model_tag("killed", own, "/20/")
    assert look(client, "killed", "b", range(20)) == 2
    assert look(client, "killed", "a", range(20)) == 2


NUMBERED = tasks(range(6))
DEALT = TaskSet((*NUMBERED[:4], *(dataclasses.replace(task, split="gate") for task in NUMBERED[4:])), "f")


def begin(client, experiment, name, *, noting=None):
    time.sleep(0.002)  # MLflow orders runs by milliseconds
    run = client.create_run(experiment, run_name=f"{name}-1", tags={"rlft.name": name}).info.run_id
    if noting is not None:
        client.log_text(run, json.dumps(noted_tasks(noting)), HASHES)
    return run


def test_the_tasks_that_a_run_trained_on_are_read_back(client, tmp_path):
    experiment = client.create_experiment("hashes", artifact_location=str(tmp_path))
    assert trained_on(client.tracking_uri, begin(client, experiment, "a")) is None
    assert trained_on(client.tracking_uri, "0" * 32) is None  # a run that was removed since
    noted = begin(client, experiment, "a", noting=DEALT)
    assert trained_on(client.tracking_uri, noted) == {task_hash(task) for task in NUMBERED[:4]}
