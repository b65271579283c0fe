"""Requests to one server: what is asked again, what is given up, and what the answers become."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.config import ServerSettings
from rlft.engines import server_clients, server_requests
from rlft.engines.server_clients import ServerClient, alike, spread
from rlft.engines.server_requests import ServerGoneError, ServerRefusedError
from rlft.errors import EngineError
from tests.rlft.engines.servers import DROP, GENERATE, HANG, LOAD, MODELS, RELOAD, RESET, UNLOAD, SmallServer

PARAMETERS = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "max_tokens": 4,
    "seed": 5,
    "stop_token_ids": [1],
}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(server_requests, "_FIRST_WAIT", 0.001)
    monkeypatch.setattr(server_requests, "_LONGEST_WAIT", 0.01)


@pytest.fixture
def connect(request):
    """A server with this fault, and a client of it."""

    def make(fault=None, attempts=3, timeout_seconds=10.0):
        server = SmallServer(fault)
        request.addfinalizer(server.stop)
        client = ServerClient(server.url, ServerSettings(attempts=attempts, timeout_seconds=timeout_seconds))
        request.addfinalizer(client.close)
        return server, client

    return make


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def answering(status, content):
    return lambda path, number: (status, content)


def choice(**changes):
    whole = {"token_ids": [4, 1], "finish_reason": "stop", "logprobs": {"content": [{"logprob": -1}, {"logprob": -2}]}}
    return {"choices": [whole | changes]}


def test_a_completion():
    # what the endpoint says, number by number
    server = SmallServer(answering(200, choice()))
    client = ServerClient(server.url + "/", ServerSettings())
    found = client.generate([4, 5], PARAMETERS, model="one")
    server.stop()
    assert (found.token_ids.tolist(), found.logprobs.tolist(), found.stop_reason) == ([4, 1], [-1, -2], "stop")
    assert (found.token_ids.dtype, found.logprobs.dtype, found.error) == (np.int32, np.float32, None)
    assert server.requests == [(GENERATE, {"token_ids": [4, 5], "sampling_params": PARAMETERS, "model": "one"})]


def test_no_name_means_the_servers_own_model(connect):
    server, client = connect()
    assert client.generate([4, 5], PARAMETERS, model=None).error is None
    assert "model" not in server.bodies(GENERATE)[0]


@pytest.mark.parametrize("fault", [503, 500, 429, 408, DROP])
def test_what_may_pass_is_asked_again(connect, fault):
    server, client = connect(lambda path, number: fault if number < 3 else None)
    assert client.generate([4], PARAMETERS, model=None).stop_reason in ("stop", "length")
    assert server.counts == {GENERATE: 3}
    assert len({str(body) for body in server.bodies(GENERATE)}) == 1


@pytest.mark.parametrize("attempts", [1, 2, 4])
def test_a_server_that_stays_busy_is_given_up(connect, attempts):
    server, client = connect(lambda path, number: 503, attempts)
    with pytest.raises(ServerGoneError, match=f"{server.url} answers 503: .*told to answer 503"):
        client.generate([4], PARAMETERS, model=None)
    assert server.counts == {GENERATE: attempts}


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_a_refusal_is_not_asked_again(connect, status):
    server, client = connect(lambda path, number: status)
    with pytest.raises(ServerRefusedError, match=f"answers {status}: .*told to answer {status}"):
        client.generate([4], PARAMETERS, model=None)
    assert server.counts == {GENERATE: 1}


def test_no_answer_ends_at_the_time_limit(connect):
    server, client = connect(lambda path, number: HANG, attempts=2, timeout_seconds=0.2)
    started = time.perf_counter()
    with pytest.raises(ServerGoneError, match="does not answer: TimeoutError"):
        client.generate([4], PARAMETERS, model=None)
    assert 0.4 <= time.perf_counter() - started < 10
    assert server.counts == {GENERATE: 2}


@contextmanager
def dripping(part):
    """The address of a server whose answer, packed as the client allows, has a part that takes 2 s: byte by byte."""
    body, over = gzip.compress(b'{"data": [{"max_model_len": 512}]}'), threading.Event()
    headers = f"HTTP/1.0 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            for name, content in (("headers", headers), ("body", body)):
                for byte in content:
                    if name == part and over.wait(2 / len(content)):
                        return
                    self.wfile.write(bytes([byte]))

        def log_message(self, format, *args):
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            over.set()
            server.shutdown()
            thread.join()


def ask_dripping(part, timeout_seconds):
    with dripping(part) as address:
        client = ServerClient(address, ServerSettings(attempts=1, timeout_seconds=timeout_seconds))
        try:
            return client.context_length()
        finally:
            client.close()


@pytest.mark.parametrize("part", ["headers", "body"])
def test_an_answer_in_drips_is_given_up_at_the_time_limit_of_the_whole(part):
    # a byte every 0.02 to 0.04 s keeps each read within 0.5 s; the whole takes 2 s
    with pytest.raises(ServerGoneError, match=r"does not answer: TimeoutError the answer is not complete after 0\.5 s"):
        ask_dripping(part, timeout_seconds=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["headers", "body"])
def test_an_answer_in_drips_that_is_whole_in_time_is_read(part):
    assert ask_dripping(part, timeout_seconds=60.0) == 512


def test_nobody_listens():
    client = ServerClient(f"http://127.0.0.1:{free_port()}", ServerSettings(attempts=2))
    with pytest.raises(ServerGoneError, match="does not answer: ConnectError"):
        client.generate([4], PARAMETERS, model=None)
    with pytest.raises(ServerGoneError, match="does not answer: ConnectError"):
        client.context_length()


def test_where_nobody_listens_there_is_one_attempt(monkeypatch):
    # whoever listens there later has other weights than the server that went
    client, asked = ServerClient(f"http://127.0.0.1:{free_port()}", ServerSettings(attempts=5)), []
    http = client._requests._http
    request = http.request
    monkeypatch.setattr(http, "request", lambda *args, **kwargs: asked.append(1) or request(*args, **kwargs))
    with pytest.raises(ServerGoneError):
        client.generate([4], PARAMETERS, model=None)
    assert len(asked) == 1


def test_a_sign_of_life_is_not_waited_for_as_long_as_an_answer(connect, monkeypatch):
    monkeypatch.setattr(server_clients, "SIGN_OF_LIFE", 0.1)
    _, client = connect(lambda path, number: HANG, attempts=1, timeout_seconds=60.0)
    started = time.perf_counter()
    with pytest.raises(ServerGoneError, match="TimeoutError"):
        client.context_length()
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    "answer",
    [
        choice(logprobs={"content": [{"logprob": -1}]}),  # one token has none
        choice(logprobs=None),
        choice(finish_reason="abort"),
        choice(finish_reason=None),
    ],
)
def test_half_a_completion_is_a_refusal(connect, answer):
    _, client = connect(answering(200, answer))
    with pytest.raises(ServerRefusedError, match="ended a completion with"):
        client.generate([4], PARAMETERS, model=None)


@pytest.mark.parametrize("content", [b"<html>hello</html>", {"answer": 42}, {"choices": []}, [1]])
def test_another_servers_answer_is_a_refusal(connect, content):
    server, client = connect(answering(200, content))
    with pytest.raises(ServerRefusedError, match="as vLLM does not"):
        client.generate([4], PARAMETERS, model=None)
    with pytest.raises(EngineError, match="as vLLM does not"):
        client.context_length()
    assert server.counts == {GENERATE: 1, MODELS: 1}


@pytest.mark.parametrize(
    "changes",
    [{"token_ids": [4, token]} for token in (2**31, -1, 10**30, 1.5, "x", "1", None, True, [1])]
    + [{"token_ids": "ab"}, {"token_ids": 4}, {"logprobs": {"content": [{"logprob": -1}, {"logprob": 10**400}]}}],
)
def test_numbers_that_no_server_means_are_a_refusal(connect, changes):
    _, client = connect(answering(200, choice(**changes)))
    with pytest.raises(ServerRefusedError, match="as vLLM does not"):
        client.generate([4], PARAMETERS, model=None)


def test_the_largest_token_id_is_one(connect):
    _, client = connect(answering(200, choice(token_ids=[0, 2**31 - 1])))
    assert client.generate([4], PARAMETERS, model=None).token_ids.tolist() == [0, 2147483647]


def test_the_context_is_the_smallest_that_is_named(connect):
    models = [{"id": "base", "max_model_len": 512}, {"id": "adapter", "max_model_len": None}, {"id": "other"}]
    _, client = connect(answering(200, {"data": models}))
    assert client.context_length() == 512


def test_adapters_and_weights(connect, tmp_path):
    server, client = connect(lambda path, number: (200, {}))
    client.load_adapter("one", tmp_path)
    client.unload_adapter("one")
    client.reload_weights(tmp_path)
    client.reset_prefix_cache()
    assert server.requests == [
        (LOAD, {"lora_name": "one", "lora_path": str(tmp_path)}),
        (UNLOAD, {"lora_name": "one"}),
        (RELOAD, {"method": "reload_weights", "kwargs": {"weights_path": str(tmp_path)}}),
        (RESET, {}),
    ]


@pytest.mark.parametrize("fault", [404, 503, DROP])
def test_what_must_be_done_and_is_not_is_an_error(connect, tmp_path, fault):
    server, client = connect(lambda path, number: fault, attempts=2)
    for path, call in {
        LOAD: lambda: client.load_adapter("one", tmp_path),
        RELOAD: lambda: client.reload_weights(tmp_path),
        RESET: client.reset_prefix_cache,
    }.items():
        if fault != 404:
            with pytest.raises(ServerGoneError, match=server.url):
                call()
            continue
        with pytest.raises(EngineError) as error:
            call()
        assert error.value.where == f"rollout.server: {server.url}{path}"
        assert "rlft serve-engine" in error.value.fix
    client.unload_adapter("one")  # whether or not it is there
    assert server.counts[UNLOAD] == (1 if fault == 404 else 2)


@pytest.fixture
def redirecting():
    """A server that sends every request on to another, and that other one."""
    target = SmallServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(307)
            self.send_header("Location", target.url + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, format, *args):
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()

    yield f"http://127.0.0.1:{server.server_address[1]}", target
    server.shutdown()
    server.server_close()
    thread.join()
    target.stop()


def test_a_redirect_is_not_followed_and_is_a_refusal(redirecting, tmp_path):
    address, target = redirecting
    client = ServerClient(address, ServerSettings())
    with pytest.raises(ServerRefusedError) as refused:
        client.generate([4], PARAMETERS, model=None)
    assert refused.value.status == 307
    with pytest.raises(EngineError, match="answers 307"):  # whose body nobody reads
        client.reload_weights(tmp_path)
    client.close()
    assert target.requests == []


WITHIN = 20.0  # seconds that a test waits for another thread before it fails


class Desk:
    """Servers by their names: what each was asked, the most at a time, and what happens to a request."""

    def __init__(self, *names: str, width: int = 2) -> None:
        self.names, self.live, self.width = names, list(names), width
        self.asked: dict[str, list[int]] = defaultdict(list)
        self.most: dict[str, int] = defaultdict(int)
        self._now: dict[str, int] = defaultdict(int)
        self._lock = threading.Lock()

    def happens(self, server: str, request: int) -> bool:
        """Answer at once."""
        return True

    def ask(self, server: str, request: int) -> bool:
        with self._lock:
            self._now[server] += 1
            self.most[server] = max(self.most[server], self._now[server])
            self.asked[server].append(request)
        try:
            return self.happens(server, request)
        finally:
            with self._lock:
                self._now[server] -= 1

    def make(self, groups):
        spread(groups, lambda: self.live, self.ask, width=self.width)


def test_a_slow_server_gets_what_it_has_room_for_and_the_other_all_else():
    # Two places each: "slow" answers the first group that it takes only once "fast" has answered all the others, which
    # would never be if groups went to the servers in turn.
    desk, begun, rest, done = Desk("fast", "slow"), threading.Event(), threading.Event(), []

    def happens(server, request):
        if server == "slow":
            begun.set()
            return rest.wait(WITHIN)
        assert begun.wait(WITHIN)
        done.append(request)
        if len(done) == 8:
            rest.set()
        return True

    desk.happens = happens
    desk.make([[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]])
    assert len(desk.asked["slow"]) == 2
    assert sorted(desk.asked["fast"] + desk.asked["slow"]) == list(range(10))
    assert all(most <= 2 for most in desk.most.values())


def test_what_a_dead_server_had_goes_to_another_one_as_a_group():
    desk, answered = Desk("a", "b", "c", width=3), set()

    def happens(server, request):
        if server == "a":
            desk.live = ["b", "c"]
            return False
        answered.add(request)
        return True

    desk.happens = happens
    desk.make([[0, 1, 2], [3], [4]])
    assert answered == set(range(5))
    assert [len({0, 1, 2} & set(desk.asked[name])) for name in ("b", "c")] in ([3, 0], [0, 3])


def test_without_a_server_nothing_is_waited_for():
    desk = Desk("a")
    desk.happens = lambda server, request: bool(desk.live.clear())  # which is no answer either
    desk.make([[0, 1], [2], [3, 4]])
    assert 1 <= len(desk.asked["a"]) <= 2  # those that were under way
    Desk().make([[0]])


def test_what_asking_raises_ends_it():
    desk = Desk("a", "b")

    def happens(server, request):
        raise ZeroDivisionError(request)

    desk.happens = happens
    with pytest.raises(ZeroDivisionError):
        desk.make([[number] for number in range(100)])
    assert sum(map(len, desk.asked.values())) <= 4  # those that were under way


def test_after_a_failure_no_further_request_is_begun():
    # One place: requests 1 and 2 wait for it, and have it once 0 has failed.
    desk = Desk("a", width=1)

    def happens(server, request):
        time.sleep(0.1)  # until the others wait
        raise ZeroDivisionError(request)

    desk.happens = happens
    with pytest.raises(ZeroDivisionError) as raised:
        desk.make([[0, 1, 2], [3]])
    assert raised.value.args == tuple(desk.asked["a"])  # a single one


def test_nothing_to_do():
    desk = Desk("a")
    desk.make([])
    assert desk.asked == {}


@pytest.mark.slow
@given(
    st.lists(st.integers(1, 5), max_size=12),
    st.integers(1, 4),
    st.sets(st.integers(0, 59), max_size=2),
    st.integers(1, 3),
)
def test_each_request_is_answered_once_while_a_server_is_left(sizes, width, deadly, count):
    desk = Desk(*"abc"[:count], width=width)
    lock, answered = threading.Lock(), []

    def happens(server, request):
        with lock:
            if request in deadly:
                deadly.discard(request)
                desk.live = [name for name in desk.live if name != server]
            if server not in desk.live:
                return False
            answered.append(request)
            return True

    desk.happens = happens
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    desk.make([range(start, start + size) for start, size in zip(starts, sizes, strict=True)])
    assert len(answered) == len(set(answered))
    if desk.live:
        assert sorted(answered) == list(range(sum(sizes)))
    assert all(most <= width for most in desk.most.values())


def test_equal_prompts_are_a_group_of_bounded_size():
    # Places 0, 2, 3 and 5 have the prompt [1]: three of them and one.
    assert alike([[1], [2], [1], [1], [2, 1], [1]], 3) == [[0, 2, 3], [5], [1], [4]]
    assert alike([], 3) == []
