"""Records of a real MLflow data set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import mlflow
import pytest
from mlflow.genai.datasets import create_dataset

from mlops.runs.use import find_records
from rlft.errors import TaskError
from tests.mlflow_stores import new_store

ROWS = [
    {"inputs": {"question": "1 + 1?"}, "expectations": {"expected_response": "2"}, "tags": {"kind": "sum"}},
    {"inputs": {"question": "Why?"}, "expectations": {"tone": "kind"}},
]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    address, before = new_store(tmp_path_factory.mktemp("mlflow")), mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(address)
    try:
        experiment = mlflow.create_experiment("small")
        create_dataset("asked", experiment_id=experiment).merge_records(ROWS)
        for _ in range(2):
            create_dataset("twice", experiment_id=experiment)
    finally:
        mlflow.set_tracking_uri(before)
    return address


def found(address, tags=None, start=None, end=None):
    return find_records(address, "asked", tags or {}, start, end)


def test_a_row_is_a_record_and_what_it_expects_is_a_persons_word(address):
    first, second = sorted(found(address), key=lambda record: record.inputs["question"])
    assert first.inputs == {"question": "1 + 1?"}
    assert [(s.kind, s.name, s.value) for s in first.said] == [("expectation", "expected_response", "2")]
    assert [(s.kind, s.name, s.value) for s in second.said] == [("expectation", "tone", "kind")]
    assert first.tags["kind"] == "sum"
    assert not first.failed
    assert first.id.startswith("dr-")


def test_rows_are_found_by_tags_and_time(address):
    assert [r.inputs["question"] for r in found(address, {"kind": "sum"})] == ["1 + 1?"]
    now = datetime.now(UTC)
    assert len(found(address, start=now - timedelta(hours=1), end=now + timedelta(hours=1))) == 2
    assert found(address, start=now + timedelta(hours=1)) == ()
    assert found(address, end=now - timedelta(hours=1)) == ()


def test_the_address_that_is_set_for_the_process_does_not_count(address):
    assert mlflow.get_tracking_uri() != address
    assert len(found(address)) == 2


def test_a_name_that_no_data_set_or_several_have_is_told(address):
    with pytest.raises(TaskError, match="no data set 'none'"):
        find_records(address, "none", {}, None, None)
    with pytest.raises(TaskError, match="several data sets 'twice'"):
        find_records(address, "twice", {}, None, None)
