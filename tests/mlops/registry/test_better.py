"""A version that was not promoted and did better is named where a person decides about a later one."""

from __future__ import annotations

import pytest

from mlops.registry.better import note_better, score_tag
from mlops.registry.client import RegistryClient
from mlops.registry.names import DECIDED_TAG
from tests.mlops.registry.small_policy import SmallRegistry
from tests.mlops.registry.written import add_version


def of_gate(gate, score, metric="accuracy"):
    return {DECIDED_TAG: f"rlft.look.{gate}.asked{score}", **score_tag(metric, score)}


@pytest.fixture
def client(tmp_path):
    return RegistryClient(f"sqlite:///{tmp_path}/mlflow.db")


def test_the_best_of_those_that_failed_the_same_gate_by_the_same_metric(client):
    for score in (0.9, 0.979, 0.8):
        add_version(client, "m", promote=False, **of_gate("a", score))
    add_version(client, "m", promote=False, **of_gate("b", 0.99))  # at another gate
    add_version(client, "m", promote=False, **of_gate("a", 0.99, "reward"))
    add_version(client, "m", promote=False, **{DECIDED_TAG: "rlft.look.a.x", "rlft.score.accuracy": "much"})
    add_version(client, "m", **of_gate("a", 0.999))  # promoted
    add_version(client, "m", promote=False)
    number = add_version(client, "m", **of_gate("a", 0.843))
    said = "note: version 2, not promoted, had 0.979 on the same gate; this one has 0.843"
    assert note_better(client, client.get_model_version("m", str(number))) == said
    for tags in (of_gate("a", 0.979), of_gate("c", 0.1), {}):
        number = add_version(client, "m", **tags)
        assert note_better(client, client.get_model_version("m", str(number))) == ""


def test_a_version_that_waits_is_registered_with_the_note(tmp_path):
    registry = SmallRegistry(tmp_path)
    registry.register(promote=False, tags=of_gate("a", 0.75))
    found = registry.register(tags=of_gate("a", 0.5), approval=True)
    assert found.note.startswith("note: version 1, not promoted, had 0.750")
    assert registry.register(tags=of_gate("a", 0.5)).note == ""  # nobody decides about it
