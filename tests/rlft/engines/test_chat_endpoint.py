"""Requests to a model behind an address: what is sent, what is asked again, what is refused, and what stays hidden."""

from __future__ import annotations

import time

import pytest

from rlft.engines import chat_endpoint, server_requests
from rlft.engines.base import Sampling
from rlft.engines.chat_endpoint import AskedModel, ChatEndpoint
from rlft.engines.server_requests import ServerGoneError, ServerRefusedError
from rlft.errors import ConfigError
from tests.factories import user
from tests.rlft.engines.chat_servers import ASKED, DROP, HANG, ChatServer, completion

GREEDY = Sampling(0.0, 64)
KEY = "sk-kept-secret-0123456789"


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(server_requests, "_FIRST_WAIT", 0.001)
    monkeypatch.setattr(server_requests, "_LONGEST_WAIT", 0.01)


@pytest.fixture
def connect(request):
    """A server that answers so, and an endpoint that asks it."""

    def make(answer, **settings):
        server = ChatServer(answer)
        request.addfinalizer(server.stop)
        model = AskedModel(server.url, "small", **{"attempts": 3, "timeout_seconds": 10.0} | settings)
        endpoint = ChatEndpoint(model)
        request.addfinalizer(endpoint.close)
        return server, endpoint

    return make


def asked(endpoint, sampling=GREEDY, tools=(), seed=5):
    return endpoint.ask([user("1+1=")], tools, sampling, seed)


def test_a_request_and_its_answer(connect):
    usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
    server, endpoint = connect(lambda body, number: completion("2", usage=usage))
    answer = asked(endpoint)
    assert (answer.message["content"], answer.is_cut, answer.calls_itself) == ("2", False, "small-1")
    assert (answer.prompt_tokens, answer.completion_tokens) == (11, 3)
    assert server.paths == [ASKED]
    assert server.bodies == [
        {"model": "small", "messages": [user("1+1=")], "temperature": 0.0, "top_p": 1.0, "max_tokens": 64, "seed": 5}
    ]
    assert "Authorization" not in server.headers[0]


def test_settings_that_change_something_are_sent_with_the_tools_and_a_seed_that_every_server_takes(connect):
    server, endpoint = connect(lambda body, number: "2")
    tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    asked(endpoint, Sampling(0.7, 8, top_p=0.9, top_k=20, min_p=0.05), [tool], seed=3 * 2**31 + 9)
    (body,) = server.bodies
    assert body["tools"] == [tool]
    assert {name: body[name] for name in ("temperature", "max_tokens", "top_p", "top_k", "min_p", "seed")} == {
        "temperature": 0.7, "max_tokens": 8, "top_p": 0.9, "top_k": 20, "min_p": 0.05, "seed": 9,
    }  # fmt: skip


def test_top_p_of_1_is_left_out_where_it_is_refused(connect):
    server, endpoint = connect(lambda body, number: (400, "not top_p and temperature", {}) if "top_p" in body else "2")
    assert [asked(endpoint).message["content"] for _ in range(2)] == ["2", "2"]
    assert ["top_p" in body for body in server.bodies] == [True, False, False]  # it is known then
    with pytest.raises(ServerRefusedError):
        asked(endpoint, Sampling(0.7, 8, top_p=0.9))


@pytest.mark.parametrize(
    ("finish", "is_cut"), [("stop", False), ("length", True), ("tool_calls", False), (None, False)]
)
def test_only_length_means_that_the_answer_was_cut_off(connect, finish, is_cut):
    _, endpoint = connect(lambda body, number: completion("2", finish))
    answer = asked(endpoint)
    assert (answer.is_cut, answer.prompt_tokens, answer.completion_tokens) == (is_cut, None, None)


@pytest.mark.parametrize("usage", [{"prompt_tokens": "many"}, {"prompt_tokens": -1}, {"prompt_tokens": True}, {}])
def test_counts_that_are_none_are_not_known(connect, usage):
    _, endpoint = connect(lambda body, number: completion("2", usage=usage))
    assert asked(endpoint).prompt_tokens is None


@pytest.mark.parametrize("fault", [500, 503, 429, DROP])
def test_what_may_pass_is_asked_again(connect, fault):
    server, endpoint = connect(lambda body, number: fault if number < 3 else "2")
    assert asked(endpoint).message["content"] == "2"
    assert len(server.bodies) == 3


def test_it_waits_as_long_as_the_server_asks_for(connect):
    _, endpoint = connect(lambda body, number: (429, {}, {"Retry-After": "0.3"}) if number == 1 else "2")
    started = time.perf_counter()
    asked(endpoint)
    assert 0.3 <= time.perf_counter() - started < 5


@pytest.mark.parametrize("asks", ["soon", "1e9", "Wed, 21 Oct 2026 07:28:00 GMT", "-1", "inf"])
def test_a_wait_that_is_no_number_of_seconds_is_not_kept(connect, asks):
    _, endpoint = connect(lambda body, number: (429, {}, {"Retry-After": asks}) if number == 1 else "2")
    started = time.perf_counter()
    asked(endpoint)
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize("status", [429, 500])
def test_an_endpoint_that_stays_busy_is_given_up(connect, status):
    server, endpoint = connect(lambda body, number: status)
    with pytest.raises(ServerGoneError, match=f"{server.url} answers {status}: .*told to answer {status}"):
        asked(endpoint)
    assert server.paths.count(ASKED) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_not_asked_again(connect, status):
    server, endpoint = connect(lambda body, number: status)
    with pytest.raises(ServerRefusedError, match=f"answers {status}") as refused:
        asked(endpoint)
    assert (refused.value.status, len(server.bodies)) == (status, 1)


def test_a_model_that_knows_the_limit_by_its_newer_name_gets_that(connect):
    said = {"error": {"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}}
    server, endpoint = connect(lambda body, number: (400, said, {}) if "max_tokens" in body else "2")
    assert [asked(endpoint).message["content"] for _ in range(2)] == ["2", "2"]
    first, *others = server.bodies
    assert (first["max_tokens"], [body["max_completion_tokens"] for body in others]) == (64, [64, 64])
    server, endpoint = connect(lambda body, number: (400, said, {}))
    with pytest.raises(ServerRefusedError, match="answers 400"):
        asked(endpoint)
    assert len(server.bodies) == 2


def test_no_answer_ends_at_the_time_limit(connect):
    _, endpoint = connect(lambda body, number: HANG, attempts=2, timeout_seconds=0.2)
    started = time.perf_counter()
    with pytest.raises(ServerGoneError, match="does not answer: TimeoutError"):
        asked(endpoint)
    assert 0.4 <= time.perf_counter() - started < 10


def test_a_silent_endpoint_is_not_asked_for_ever(connect, monkeypatch):
    monkeypatch.setattr(chat_endpoint, "MOST_SILENT", 2)
    server, endpoint = connect(lambda body, number: DROP if number < 3 else "2", attempts=1)
    for _ in range(2):
        with pytest.raises(ServerGoneError, match="does not answer"):
            asked(endpoint)
    with pytest.raises(
        ServerGoneError, match=r"was not asked, as it did not answer 2 times in a row, at last: .+does not"
    ):
        asked(endpoint)
    assert len(server.bodies) == 2


def test_silences_in_between_answers_and_refusals_are_not_in_a_row(connect, monkeypatch):
    monkeypatch.setattr(chat_endpoint, "MOST_SILENT", 2)
    said = [DROP, "2", DROP, 503, DROP, 404, DROP, "2"]
    _, endpoint = connect(lambda body, number: said[number - 1], attempts=1)
    found = []
    for _ in said:
        try:
            found.append(asked(endpoint).message["content"])
        except (ServerGoneError, ServerRefusedError) as failed:
            found.append(failed.status)
    assert found == [0, "2", 0, 503, 0, 404, 0, "2"]


def test_a_redirect_is_not_followed(connect):
    elsewhere, _ = connect(lambda body, number: "stolen")
    place = {"Location": f"{elsewhere.url}/chat/completions"}
    server, endpoint = connect(lambda body, number: (307, {}, place))
    with pytest.raises(ServerRefusedError, match="answers 307"):
        asked(endpoint)
    assert (len(server.bodies), elsewhere.bodies) == (1, [])


@pytest.mark.parametrize(
    "content",
    [
        b"<html>no</html>",
        b"[]",
        b"null",
        b'{"choices": []}',
        b'{"choices": [{}]}',
        b'{"choices": [{"message": "2"}]}',
        b'{"choices": {"message": {}}}',
        b'{"choices": [{"message": {}}], "usage": [1]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_answer_is_refused_with_what_was_said(connect, content):
    server, endpoint = connect(lambda body, number: (200, content, {}))
    with pytest.raises(ServerRefusedError) as refused:
        asked(endpoint)
    assert str(refused.value).startswith(f"{server.url} answers as no chat endpoint does: {content[:10].decode()}")
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("written", [KEY, f" {KEY}\n"])
def test_the_key_is_sent_and_shown_nowhere(connect, monkeypatch, written):
    monkeypatch.setenv("ENDPOINT_KEY", written)
    # An endpoint that repeats the key across the place at which the shown text ends.
    said = ("x" * 290 + KEY).encode()
    server, endpoint = connect(lambda body, number: (401, said, {}), api_key="env:ENDPOINT_KEY")
    with pytest.raises(ServerRefusedError) as refused:
        asked(endpoint)
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert "***" in str(refused.value)
    assert "sk-" not in str(refused.value)
    assert KEY not in repr(endpoint.model)
    assert endpoint.model.api_key == "env:ENDPOINT_KEY"


@pytest.mark.parametrize(
    ("written", "said"),
    [(None, "ENDPOINT_KEY, which is not set"), ("a\nb" * 4, "cannot be sent"), ("schlüssel", "sent")],
)
def test_a_key_that_cannot_be_sent_is_an_error_that_does_not_show_it(monkeypatch, written, said):
    monkeypatch.delenv("ENDPOINT_KEY", raising=False)
    if written is not None:
        monkeypatch.setenv("ENDPOINT_KEY", written)
    with pytest.raises(ConfigError, match=said) as wrong:
        ChatEndpoint(AskedModel("http://127.0.0.1:9/v1", "small", api_key="env:ENDPOINT_KEY"))
    assert written is None or written not in str(wrong.value)


def test_how_it_is_asked_is_no_part_of_what_was_asked():
    from materializers.report import ReportMaterializer

    def hashed(**changes):
        model = AskedModel(**{"endpoint": "http://a/v1", "model": "small", "calls_itself": "small-1"} | changes)
        return ReportMaterializer("unused").compute_content_hash(model)

    same = {"api_key": "env:OTHER", "timeout_seconds": 3.0, "attempts": 9, "concurrency": 2}
    assert {hashed(), hashed(**same)} == {hashed()}
    assert len({hashed(), hashed(endpoint="http://b/v1"), hashed(model="large"), hashed(calls_itself="small-2")}) == 4
