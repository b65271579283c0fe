"""Conversations in MLflow: what is stored of them, and what happens where MLflow is away."""

import json
import secrets
from pathlib import Path

import pytest
from mlflow import MlflowClient

from mlops.registry.conversations import Conversations, Exchange, experiment_id
from mlops.registry.engines import ServedVersion
from rlft.errors import TrackerError
from rlft.texts.privacy import LONGEST
from tests.e2e.conftest import free_port
from tests.mlflow_stores import new_store

VERSION = ServedVersion("small", "3", "champion", "abc", "m-1", Path("none/served"))
SECRET = "sk-abcdefghijklmnopqrstuvwxyz123456"


def exchange(content="Hi", answer="Hello", status=200, version=VERSION, key=None, tags=None):
    messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
    asked = json.dumps({"messages": messages}).encode()
    message = {"role": "assistant", "content": answer}
    body = json.dumps({"choices": [{"message": message}]} if status == 200 else {"error": {"message": answer}})
    times = 10**18, 10**18 + 5 * 10**6
    given = version, "/v1/chat/completions", asked, status, "application/json", body.encode(), *times
    return Exchange(*given, key or secrets.token_bytes(16), tags or {})


@pytest.fixture
def uri(tmp_path):
    return new_store(tmp_path)


def written(uri, *exchanges, **settings):
    logged = Conversations(uri, "small", **settings)
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


def test_secrets_are_hidden_wherever_they_stand(uri):
    keys = [SECRET, "ghp_Ab3dEf6hIj9lMn2pQr5tUv8xYz01Ab3d", "AKIAIOSFODNN7EXAMPLE", "hunter2Xy9z", "abc123def456ghi"]
    lines = f"own:\n{keys[0]}\n{keys[1]}\n\t{keys[2]}\npassword={keys[3]}\nDB_PASSWORD: {keys[3]}"
    call = {"type": "function", "function": {"name": "f", "arguments": json.dumps({"api_key": keys[3]})}}
    talk = [
        {"role": "user", "content": lines},
        {"role": "assistant", "content": f"--api-key={keys[4]}", "tool_calls": [call]},
        {"role": "user", "content": "Hi", "metadata": {"password": keys[3], keys[0]: 1}},
    ]
    (trace,) = written(uri, exchange(talk, lines))
    said = trace.to_json()
    assert [key for key in keys if key in said] == []
    assert "own:" in said


def test_a_secret_takes_nothing_with_it_of_other_messages(uri):
    texts = ["-----BEGIN PRIVATE KEY-----", "run x --password hunter2Xy9z", "the question -----END X----- tail"]
    (trace,) = written(uri, exchange([{"role": "user", "content": text} for text in texts]))
    shown = [message["content"] for message in trace.data.spans[0].inputs["messages"]]
    assert shown == ["***", "run x --password ***", texts[2]]


@pytest.mark.parametrize(
    "content",
    [
        "run x --password hunter2Xy9z",
        "see https://hooks.slack.com/services/T0/B0/abc",
        "a\ud800b",
        [1, 2, "x"],
        [{"role": "user", "content": None}],
        [],
    ],
)
def test_whatever_is_asked_is_logged_and_costs_nothing_of_others(uri, content):
    written(uri, exchange(content), exchange("honest"))


def test_what_cannot_be_logged_is_lost_alone_and_told_once(uri, caplog):
    deep = json.loads("[" * 900 + "]" * 900)
    long = "x" * LONGEST
    logged = Conversations(uri, "small", mask=False)
    logged.start()
    for content in ([{"role": "user", "content": "Hi", "more": deep}], long, "honest", long, "honest"):
        logged.add(exchange(content))
    logged._queue.put(None)
    logged._thread.join(120)
    assert (logged.written, logged.lost) == (2, 3)
    told = [record.getMessage() for record in caplog.records if record.name == "mlops.registry.conversations"]
    assert len(told) == 1
    assert told[0].startswith("a conversation is not logged, and others are: ")


def test_personal_data_is_masked_in_all_that_is_stored(uri):
    mail = "jane@example.com"
    (trace,) = written(uri, exchange(f"I am {mail}", f"Hello {mail}", tags={"who": mail}))
    assert mail not in trace.to_json()
    assert trace.info.request_preview == "I am <EMAIL_ADDRESS>"
    assert trace.data.spans[0].outputs == {"messages": [{"role": "assistant", "content": "Hello <EMAIL_ADDRESS>"}]}
    assert trace.info.tags["who"] == "<EMAIL_ADDRESS>"


def test_nothing_is_masked_where_that_is_asked_for(uri):
    (trace,) = written(uri, exchange("jane@example.com"), mask=False)
    assert trace.info.request_preview == "jane@example.com"


def test_an_error_that_quotes_personal_data_is_masked(uri):
    (trace,) = written(uri, exchange(answer="no jane@example.com here", status=400))
    assert "jane@" not in trace.to_json()


def test_the_trace_has_the_id_that_the_client_was_told_and_its_tags_but_no_tag_of_rlfts_is_replaced(uri):
    (trace,) = written(uri, exchange(key=bytes(range(16)), tags={"kind": "odd", "rlft.version": "9"}))
    assert trace.info.trace_id == "tr-000102030405060708090a0b0c0d0e0f"
    assert (trace.info.tags["kind"], trace.info.tags["rlft.version"]) == ("odd", "3")


def test_an_error_is_one(uri):
    (trace,) = written(uri, exchange(answer="too long", status=400))
    assert trace.info.state.value == "ERROR"
    assert "too long" in trace.info.response_preview


def test_a_version_that_was_named_by_its_number_has_no_alias(uri):
    (trace,) = written(uri, exchange(version=ServedVersion("small", "3", None, "abc", None, Path("none/served"))))
    assert "rlft.alias" not in trace.info.tags


def test_a_tracker_that_is_away_is_told_once(caplog):
    logged = Conversations(f"http://127.0.0.1:{free_port()}", "small")
    logged.start()
    for _ in range(5):
        logged.add(exchange())
    logged._queue.put(None)
    logged._thread.join(60)
    assert (logged.written, logged.lost) == (0, 5)
    (said,) = [record.getMessage() for record in caplog.records if record.name == "mlops.registry.conversations"]
    assert said.startswith("conversations are not logged, and answers go on: MLflow does not take them: ")


def test_nothing_is_stored_in_an_experiment_that_is_deleted(uri):
    logged, client = Conversations(uri, "small", mask=False), MlflowClient(uri)
    client.delete_experiment(client.create_experiment("small-served"))
    logged.start()
    logged.add(exchange("two"))
    logged._queue.put(None)
    logged._thread.join(120)
    assert (logged.written, logged.lost) == (0, 1)


def test_an_experiment_that_is_deleted_from_the_start_is_told_with_the_way_out(uri):
    client = MlflowClient(uri)
    number = client.create_experiment("small-served")
    client.delete_experiment(number)
    with pytest.raises(TrackerError, match="small-served' is deleted") as caught:
        experiment_id(uri, "small-served")
    assert f"mlflow experiments restore --experiment-id {number}" in caught.value.fix


def test_more_than_can_wait_is_dropped_without_waiting(uri):
    logged = Conversations(uri, "small")  # whose thread does not run
    one = exchange()
    for _ in range(1003):
        logged.add(one)
    assert logged.lost == 3
