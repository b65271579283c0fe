"""What a client and the engine get through the proxy; the engine is a small server that answers as it is told."""

import json
import socket
import threading

import httpx
import pytest

from mlops.registry import server as proxy
from mlops.registry.conversations import LONGEST_REQUEST
from tests.mlops.registry.registered import TOOL
from tests.mlops.registry.small_app import backend, proxied
from tests.rlft.engines.chat_servers import ASKED, DROP, ChatServer, completion

SHOWN = {"system_prompt": "Be kind.", "tools": [TOOL], "tool_format": "hermes"}
BODY = {"model": "small", "messages": [{"role": "user", "content": "Hi"}]}
EVENTS = b'data: {"choices": [{"index": 0, "delta": {"content": "a"}}]}\n\ndata: [DONE]\n\n'


@pytest.fixture
def engine():
    with ChatServer(lambda body, number: "yes") as server:
        yield server


@pytest.fixture
def client():
    with httpx.Client(trust_env=False, timeout=30) as client:
        yield client


def test_the_engine_gets_the_context_its_own_name_and_its_key(engine, client):
    with proxied(backend(engine, context=SHOWN)) as url:
        answer = client.post(url + ASKED, json=BODY, headers={"authorization": "Bearer users-own"})
    assert answer.json() == completion("yes")
    (body,) = engine.bodies
    assert body["model"] == "small/1"
    assert body["messages"] == [{"role": "system", "content": "Be kind."}, *BODY["messages"]]
    assert body["tools"] == [TOOL]
    headers = {name.lower(): value for name, value in engine.headers[0].items()}
    assert headers["authorization"] == "Bearer the-key"
    assert headers["host"] == engine.url.removeprefix("http://").removesuffix("/v1")


def test_a_question_of_one_of_several_environments_gets_its_context(engine, client):
    several = {
        "system_prompt": "",
        "tools": [],
        "members": {"kind": SHOWN, "plain": {"system_prompt": "", "tools": []}},
    }
    with proxied(backend(engine, context=several)) as url:
        assert client.get(url + "/rlft/version").json()["environments"] == ["kind", "plain"]
        for name in ("kind", "plain"):
            assert client.post(url + ASKED, json=BODY, headers={"rlft-environment": name}).status_code == 200
        unknown = client.post(url + ASKED, json=BODY, headers={"rlft-environment": "other"})
        elsewhere = client.post(url + "/v1/completions", json={"prompt": "Hi"}, headers={"rlft-environment": "kind"})
    kind, plain = engine.bodies
    assert kind["messages"] == [{"role": "system", "content": "Be kind."}, *BODY["messages"]]
    assert (kind["tools"], plain["messages"], "tools" in plain) == ([TOOL], BODY["messages"], False)
    assert (unknown.status_code, elsewhere.status_code) == (400, 400)
    assert "which is not known; there are kind, plain" in unknown.json()["error"]["message"]
    assert "is for /v1/chat/completions alone" in elsewhere.json()["error"]["message"]


def test_every_answer_says_which_version_gave_it(engine, client):
    own = {"rlft-model": "small", "rlft-version": "1", "rlft-alias": "champion"}
    with proxied(backend(engine)) as url:
        answers = [client.post(url + ASKED, json=BODY), client.get(url + "/v1/models"), client.get(url + "/health")]
        for answer in answers:
            assert {name: value for name, value in answer.headers.items() if name.startswith("rlft-")} == own
        said = client.get(url + "/rlft/version").json()
    assert (said["name"], said["version"], said["alias"]) == ("small", "1", "champion")
    assert (said["engine"], said["weights_sha256"]) == ("vllm", "hash-1")
    assert answers[1].json()["data"][0]["id"] == "small"


@pytest.mark.parametrize(
    "name", ["small", "small@champion", "small/1", "models:/small@champion", "models:/small/1", None]
)
def test_the_names_of_a_version(engine, client, name):
    with proxied(backend(engine)) as url:
        assert client.post(url + ASKED, json=BODY | {"model": name}).status_code == 200


@pytest.mark.parametrize("name", ["small/2", "small@challenger", "gpt-4", 3, ["small"]])
def test_another_model_is_refused(engine, client, name):
    with proxied(backend(engine)) as url:
        answer = client.post(url + ASKED, json=BODY | {"model": name})
    assert answer.status_code == 404
    assert "is not served here; there is small (version 1)" in answer.json()["error"]["message"]
    assert engine.bodies == []


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_what_is_no_request_is_refused(engine, client, content):
    with proxied(backend(engine)) as url:
        answer = client.post(url + ASKED, content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "the body is no JSON object"


@pytest.mark.parametrize("path", ["/v1/load_lora_adapter", "/collective_rpc", "/metrics", "/v1/embeddings", "/docs"])
def test_other_routes_of_the_engine_are_not_reached(engine, client, path):
    with proxied(backend(engine)) as url:
        assert client.post(url + path, json={}).status_code == 404
    assert engine.paths == []


def test_errors_of_the_engine_are_passed_on(client):
    with ChatServer(lambda body, number: 429) as engine, proxied(backend(engine)) as url:
        answer = client.post(url + ASKED, json=BODY)
    assert (answer.status_code, answer.headers["rlft-version"]) == (429, "1")
    assert answer.json()["error"]["message"] == "told to answer 429"


def test_an_engine_that_hangs_up_is_told_as_an_error(client):
    with ChatServer(lambda body, number: DROP) as engine, proxied(backend(engine)) as url:
        answer = client.post(url + ASKED, json=BODY)
    assert answer.status_code == 502
    assert "the engine does not answer" in answer.json()["error"]["message"]


def test_a_stream_comes_as_it_is(client):
    head = {"Content-Type": "text/event-stream"}
    with ChatServer(lambda body, number: (200, EVENTS, head)) as engine, proxied(backend(engine)) as url:
        answer = client.post(url + ASKED, json=BODY | {"stream": True})
    assert answer.content == EVENTS
    assert answer.headers["content-type"] == "text/event-stream"
    assert engine.bodies[0]["stream"] is True


class SlowStream:
    """An engine by hand: it sends the head and one event, waits for `go`, and then ends as told."""

    def __init__(self, *, whole: bool):
        self.go, self.gone = threading.Event(), threading.Event()
        self._whole, self._listener = whole, socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        connection, _ = self._listener.accept()
        connection.recv(65536)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        event = b'data: {"choices": []}\n\n'
        connection.sendall(head + f"{len(event):x}\r\n".encode() + event + b"\r\n")
        connection.settimeout(0.05)
        while not self.go.is_set():
            try:
                if connection.recv(10) == b"":
                    self.gone.set()
                    break
            except TimeoutError:
                continue
        if self._whole:
            connection.sendall(b"0\r\n\r\n")
        connection.close()


def test_events_are_not_held_back(client):
    engine = SlowStream(whole=True)
    address = proxied(backend(engine))
    with address as url, client.stream("POST", url + ASKED, json=BODY) as answer:
        parts = answer.iter_raw()
        first = next(parts)  # while the engine is still answering
        engine.go.set()
        rest = b"".join(parts)
    assert (first, rest) == (b'data: {"choices": []}\n\n', b"")


def test_a_client_that_goes_away_lets_the_engine_stop(client):
    engine = SlowStream(whole=True)
    with proxied(backend(engine)) as url:
        with client.stream("POST", url + ASKED, json=BODY) as answer:
            parts = answer.iter_raw()
            next(parts)
        assert engine.gone.wait(20)


def test_a_stream_that_breaks_off_ends_with_an_error_that_clients_raise(client):
    engine = SlowStream(whole=False)
    address = proxied(backend(engine))
    with address as url, client.stream("POST", url + ASKED, json=BODY) as answer:
        parts = answer.iter_raw()
        next(parts)
        engine.go.set()
        last = b"".join(parts)
    assert json.loads(last.decode().removeprefix("data: "))["error"]["message"] == "the engine has ended"


class Log:
    """A log that keeps what it gets."""

    def __init__(self):
        self.kept = []

    def add(self, exchange):
        self.kept.append(exchange)


def test_conversations_are_logged_as_the_model_was_asked(engine, client):
    logged = Log()
    with proxied(backend(engine, context=SHOWN), logged) as url:
        client.post(url + ASKED, json=BODY)
        client.get(url + "/v1/models")
    (exchange,) = logged.kept
    assert json.loads(exchange.asked)["messages"][0] == {"role": "system", "content": "Be kind."}
    assert json.loads(exchange.answer) == completion("yes")
    assert (exchange.version.number, exchange.status, exchange.path) == ("1", 200, ASKED)
    assert exchange.end > exchange.start


def test_an_answer_says_which_trace_it_is_and_the_trace_gets_the_clients_tags(engine, client):
    logged = Log()
    with proxied(backend(engine), logged) as url:
        answer = client.post(url + ASKED, json=BODY, headers={"rlft-tag": "kind=odd"})
    (exchange,) = logged.kept
    assert answer.headers["rlft-trace"] == f"tr-{exchange.key.hex()}"
    assert exchange.tags == {"kind": "odd"}


def test_a_trace_says_which_environment_was_named(engine, client):
    logged = Log()
    with proxied(backend(engine, context={"members": {"kind": SHOWN}}), logged) as url:
        client.post(url + ASKED, json=BODY, headers={"rlft-environment": "kind"})
    assert [exchange.tags for exchange in logged.kept] == [{"rlft.environment": "kind"}]


def test_a_tag_that_is_none_is_refused_before_the_engine_is_asked(engine, client):
    with proxied(backend(engine), Log()) as url:
        answer = client.post(url + ASKED, json=BODY, headers={"rlft-tag": "rlft.version=2"})
    assert answer.status_code == 400
    assert "write NAME=VALUE" in answer.json()["error"]["message"]
    assert engine.bodies == []


def test_a_request_that_is_too_long_to_be_logged_is_answered_and_neither_logged_nor_told(engine, client):
    logged = Log()
    with proxied(backend(engine), logged) as url:
        long = client.post(url + ASKED, json={"messages": [{"role": "user", "content": "x" * LONGEST_REQUEST}]})
        client.post(url + ASKED, json=BODY)
    assert (long.status_code, "rlft-trace" in long.headers) == (200, False)
    assert len(logged.kept) == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "multipart/form-data; boundary=x"}, 415),
        ({"content-type": ""}, 415),
        ({"content-type": "application/json", "host": "rebound.example:8000"}, 400),
        ({"content-type": "application/json; charset=utf-8", "host": "localhost:3000"}, 200),
    ],
)
def test_what_a_page_in_a_browser_may_have_sent_is_refused(engine, client, headers, status):
    logged = Log()
    with proxied(backend(engine), logged) as url:
        answer = client.post(url + ASKED, content=json.dumps(BODY), headers=headers)
    assert answer.status_code == status
    assert len(logged.kept) == len(engine.bodies) == (status == 200)


def test_a_server_for_other_machines_answers_whatever_name_it_has_there(engine, client):
    with proxied(backend(engine), local=False) as url:
        assert client.post(url + ASKED, json=BODY, headers={"host": "gpu.example:8000"}).status_code == 200


def test_a_body_that_is_too_large_is_refused(engine, client, monkeypatch):
    monkeypatch.setattr(proxy, "_LARGEST", 40)
    with proxied(backend(engine)) as url:
        assert client.post(url + ASKED, json=BODY).status_code == 413
    assert engine.bodies == []


def test_other_letters_take_no_more_bytes_on_the_way_to_the_engine_and_half_a_letter_goes_through():
    sent = []
    with ChatServer(lambda body, number: sent.append(body) or "yes") as engine:
        with proxied(backend(engine)) as url:
            for content in ("\U0001f600" * 1000, "\ud800"):
                json_body = json.dumps(BODY | {"messages": [{"role": "user", "content": content}]})
                assert httpx.post(
                    url + ASKED, content=json_body, headers={"content-type": "application/json"}
                ).is_success
        lengths = [int({k.lower(): v for k, v in each.items()}["content-length"]) for each in engine.headers]
    assert [body["messages"][-1]["content"] for body in sent] == ["\U0001f600" * 1000, "\ud800"]
    assert lengths[0] < 5000  # four bytes for each, not the twelve of two escapes
