"""A server that ends by a signal, or because its engine has ended; the engine is a small server."""

import os
import signal
import socket
import threading

import httpx
import pytest

from mlops.registry import server
from mlops.registry.client import NamedVersion
from mlops.registry.server import Settings, serve
from rlft.errors import EngineError, ServerEndedError
from tests.mlops.registry.small_app import backend
from tests.rlft.engines.chat_servers import ChatServer


class Ended(Exception):
    """What the signal raises."""


class Program:
    """In place of an engine's program."""

    what, stopped, exit_code = "vLLM", False, None

    def died(self, what):
        return EngineError(what)

    def stop(self):
        self.stopped = True


@pytest.fixture
def program(monkeypatch):
    """The program of the engine that `serve` starts."""
    child = Program()
    with ChatServer(lambda body, number: "yes") as engine:
        made = backend(engine, child=child)
        monkeypatch.setattr(server, "_start", lambda settings, place: made)
        yield child


def run(once_it_answers):
    """Serve, and do something as soon as the server has answered."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def ask():
            assert httpx.get(f"{url}/rlft/version", trust_env=False, timeout=60).json()["version"] == "1"
            once_it_answers()

        found = NamedVersion("small", "1", "hash-1", None, None)
        serve(Settings("", found, "champion", "vllm", listener), lambda _: threading.Thread(target=ask).start())


def test_a_signal_ends_the_server_and_its_engine(program):
    def handler(number, frame):
        raise Ended

    before = signal.signal(signal.SIGTERM, handler)
    try:
        with pytest.raises(Ended):
            run(lambda: os.kill(os.getpid(), signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert program.stopped


def test_an_engine_that_ends_ends_the_server_with_its_exit_code(program):
    with pytest.raises(ServerEndedError) as caught:
        run(lambda: setattr(program, "exit_code", -9))
    assert caught.value.what == "vLLM has ended with exit code -9"
    assert program.stopped
