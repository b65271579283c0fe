"""Conversations in MLflow: what is stored of them, and what happens where MLflow is away."""

import json

import pytest
from mlflow import MlflowClient

from mlops.serving.conversations import Conversations, Exchange
from mlops.serving.version import ServedVersion
from tests.e2e.conftest import free_port

VERSION = ServedVersion("small", "3", "champion", "abc", "m-1")
SECRET = "sk-abcdefghijklmnopqrstuvwxyz123456"


def exchange(content="Hi", answer="Hello", status=200, version=VERSION):
    asked = {"messages": [{"role": "user", "content": content}]}
    message = {"role": "assistant", "content": answer}
    body = json.dumps({"choices": [{"message": message}]} if status == 200 else {"error": {"message": answer}})
    return Exchange(
        version, "/v1/chat/completions", asked, status, "application/json", body.encode(), 10**18, 10**18 + 5 * 10**6
    )


@pytest.fixture
def uri(tmp_path):
    return f"sqlite:///{tmp_path}/mlflow.db"


def written(uri, *exchanges):
    logged = Conversations(uri, "small")
    logged.start()
    for each in exchanges:
        logged.add(each)
    logged._queue.put(None)
    logged._thread.join(120)
    assert (logged.written, logged.lost) == (len(exchanges), 0)
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("small-served")
    return client.search_traces(locations=[experiment.experiment_id], order_by=["timestamp_ms ASC"])


def test_a_trace_has_the_conversation_and_the_version(uri):
    (trace,) = written(uri, exchange("What is é?", "A letter."))
    tags = trace.info.tags
    assert {name: tags[name] for name in ("rlft.model", "rlft.version", "rlft.alias", "rlft.weights_hash")} == {
        "rlft.model": "small", "rlft.version": "3", "rlft.alias": "champion", "rlft.weights_hash": "abc",
    }  # fmt: skip
    assert trace.info.trace_metadata["mlflow.modelId"] == "m-1"
    assert (trace.info.request_preview, trace.info.response_preview) == ("What is é?", "A letter.")
    assert (trace.info.request_time, trace.info.execution_duration) == (10**12, 5)  # in milliseconds
    (span,) = trace.data.spans
    assert span.span_type == "CHAT_MODEL"
    assert span.inputs == {"messages": [{"role": "user", "content": "What is é?"}]}
    assert span.outputs == {"messages": [{"role": "assistant", "content": "A letter."}]}


def test_secrets_are_hidden(uri):
    (trace,) = written(uri, exchange(f"my key is {SECRET}", f"so it is {SECRET}"))
    assert SECRET not in trace.to_json()
    assert "my key is ***" in trace.info.request_preview


def test_an_error_is_one(uri):
    (trace,) = written(uri, exchange(answer="too long", status=400))
    assert trace.info.state.value == "ERROR"
    assert "too long" in trace.info.response_preview


def test_a_version_that_was_named_by_its_number_has_no_alias(uri):
    (trace,) = written(uri, exchange(version=ServedVersion("small", "3", None, "abc", None)))
    assert "rlft.alias" not in trace.info.tags


def test_a_tracker_that_is_away_is_told_once_and_asked_seldom(caplog):
    asked = []
    logged = Conversations(f"http://127.0.0.1:{free_port()}", "small")
    own = logged._write
    logged._write = lambda each: (asked.append(each), own(each))
    logged.start()
    for _ in range(5):
        logged.add(exchange())
    logged._queue.put(None)
    logged._thread.join(60)
    assert (logged.written, logged.lost, len(asked)) == (0, 5, 1)
    (said,) = [record.getMessage() for record in caplog.records if record.name == "mlops.serving.conversations"]
    assert said.startswith("conversations are not logged, and answers go on: MLflow does not take them: ")


def test_more_than_can_wait_is_dropped_without_waiting(uri):
    logged = Conversations(uri, "small")  # whose thread does not run
    for _ in range(1003):
        logged.add(exchange())
    assert logged.lost == 3
