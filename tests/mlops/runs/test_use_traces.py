"""Traces of a real MLflow as records: what was asked and answered, who said what, and which are found."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import AssessmentError, AssessmentSource, Expectation, Feedback
from mlflow.tracing.client import TracingClient

from mlops.registry.conversations import Conversations, Exchange
from mlops.registry.engines import ServedVersion
from mlops.runs.use import find_traces, trace_filter
from rlft.errors import TaskError, TrackerError
from rlft.tasks.use import Said
from tests.mlflow_stores import new_store

VERSION = ServedVersion("small", "3", "champion", "abc", None, Path("none/served"))
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
PEOPLE = {name: AssessmentSource("HUMAN", name) for name in ("ana", "ben", "default")}


def exchange(number, *, minute=0, status=200, **tags):
    start = round((NOON.timestamp() + 60 * minute) * 1e9)
    body = b'{"choices": [{"message": {"role": "assistant", "content": "Yes"}}]}'
    asked = json.dumps({"messages": [{"role": "user", "content": f"question {number}?"}]}).encode()
    given = VERSION, "/v1/chat/completions", asked, status, "application/json", body, start, start + 10**7
    return Exchange(*given, bytes([number] * 16), tags)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """An MLflow with four conversations, a minute apart: the second has failed, the third is odd."""
    address = new_store(tmp_path_factory.mktemp("mlflow"))
    logged = Conversations(address, "small", mask=())
    logged.start()
    for number, more in enumerate([{"kind": "even"}, {"status": 500}, {"kind": "odd"}, {"kind": "it's"}]):
        logged.add(exchange(number, minute=number, **more))
    logged._queue.put(None)
    logged._thread.join(120)
    assert logged.lost == 0
    return address


def ids(*numbers):
    return [f"tr-{bytes([number] * 16).hex()}" for number in numbers]


def found(address, tags=None, start=None):
    return find_traces(address, "small-served", tags or {}, start)


def test_a_conversation_is_a_record(address):
    record = found(address)[0]
    assert record.inputs == {"messages": [{"role": "user", "content": "question 0?"}]}
    assert record.output == {"messages": [{"role": "assistant", "content": "Yes"}]}
    assert not record.failed
    assert (record.id, record.time) == (ids(0)[0], NOON.timestamp() * 1000)
    assert record.said == ()


def test_traces_are_found_by_tags_and_time(address):
    minute = [NOON.replace(minute=n) for n in range(4)]
    assert [r.id for r in found(address)] == ids(0, 1, 2, 3)
    assert [r.failed for r in found(address)] == [False, True, False, False]
    assert [r.id for r in found(address, {"kind": "odd"})] == ids(2)
    assert [r.id for r in found(address, {"kind": "odd", "rlft.version": "2"})] == []
    assert [r.id for r in found(address, start=minute[1])] == ids(1, 2, 3)
    assert [r.id for r in found(address, {"kind": "odd"}, minute[3])] == []


@pytest.mark.slow
def test_more_than_a_page_is_read(address, monkeypatch):
    monkeypatch.setattr("mlops.runs.use._PAGE", 1)
    assert [r.id for r in found(address)] == ids(0, 1, 2, 3)


def test_only_what_people_say_now_is_read(address):
    client, (trace,) = TracingClient(address), ids(2)
    for each in (
        Expectation("expected_response", "No", PEOPLE["ana"]),
        Feedback("correct", False, source=PEOPLE["ben"]),
        Feedback("correct", True, source=PEOPLE["default"]),
        Feedback("correct", True, source=AssessmentSource("LLM_JUDGE", "judge")),
        Expectation("expected_response", "Never", AssessmentSource("CODE", "rlft")),
        Feedback("broken", error=AssessmentError("E", "failed"), source=PEOPLE["ana"]),
    ):
        client.log_assessment(trace, each)
    (record,) = found(address, {"kind": "odd"})
    told = {(s.person, s.kind, s.name, s.value) for s in record.said}
    assert told == {
        ("ana", "expectation", "expected_response", "No"),
        ("ben", "feedback", "correct", False),
        ("", "feedback", "correct", True),  # a name that MLflow gives to whom it does not know
    }
    assert all(isinstance(s, Said) and s.time > 0 for s in record.said)


def test_what_a_person_has_changed_counts_as_it_is_now(address):
    client, (trace,) = TracingClient(address), ids(0)
    first = client.log_assessment(trace, Expectation("expected_response", "No", PEOPLE["ana"]))
    client.update_assessment(trace, first.assessment_id, Expectation("expected_response", "Yes", PEOPLE["ana"]))
    wrong = client.log_assessment(trace, Feedback("correct", True, source=PEOPLE["ben"]))
    right = Feedback("correct", False, source=PEOPLE["ben"], overrides=wrong.assessment_id)
    client.log_assessment(trace, right)
    (record,) = found(address, {"kind": "even"})
    assert sorted((s.person, s.value) for s in record.said) == [("ana", "Yes"), ("ben", False)]


def test_an_experiment_that_is_not_there_is_told(address):
    with pytest.raises(TaskError, match="no experiment 'large-served'") as caught:
        find_traces(address, "large-served", {}, None)
    assert "--log-conversations" in caught.value.fix


def test_an_experiment_that_is_deleted_is_not_read(address):
    client = MlflowClient(address)
    experiment = client.get_experiment_by_name("small-served").experiment_id
    client.delete_experiment(experiment)
    try:
        with pytest.raises(TrackerError) as caught:
            found(address)
    finally:
        client.restore_experiment(experiment)
    assert f"mlflow experiments restore --experiment-id {experiment}" in caught.value.fix
    assert len(found(address)) == 4


def test_the_filter_is_mlflows():
    start = datetime(2026, 11, 1, tzinfo=UTC)
    assert trace_filter({"a.b": "c d"}, start) == "tags.`a.b` = 'c d' AND timestamp_ms >= 1793491200000"
    assert trace_filter({}, None) == ""


@pytest.mark.slow
def test_a_trace_of_another_program_is_read_by_its_root_span(address, tmp_path):
    import mlflow

    client = MlflowClient(address)
    experiment = client.create_experiment("other", artifact_location=tmp_path.as_uri())
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(address)
    try:
        root = mlflow.start_span_no_context("ask", inputs={"question": "Why?"}, experiment_id=experiment)
        child = mlflow.start_span_no_context("model", parent_span=root, inputs={"prompt": "no"})
        child.set_outputs("no")
        child.end()
        root.end(outputs="Because")
        mlflow.flush_trace_async_logging()
    finally:
        mlflow.set_tracking_uri(before)
    (record,) = find_traces(address, "other", {}, None)
    assert (record.inputs, record.output) == ({"question": "Why?"}, "Because")
