"""An error of ZenML's server is told as such, with the way on, and an error of anybody else is not."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from zenml.zen_stores.rest_zen_store import RestZenStore

from mlops.stacks import stack
from mlops.stacks.stack import server_error
from rlft.errors import StackAwayError
from tests.e2e.conftest import free_port

RESUME = "rlft resume first --stack team"
WHERE = "http://zenml.example"


@pytest.fixture(autouse=True)
def _address(monkeypatch):
    from zenml.config import global_config

    store = SimpleNamespace(store_configuration=SimpleNamespace(url=WHERE))
    monkeypatch.setattr(global_config, "GlobalConfiguration", lambda: store)


@contextmanager
def answering(status: int, body: str):
    """A server that gives one answer to all; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            """Keep still."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def asked(address: str) -> Exception:
    """What ZenML's client raises of a server at this address; without the time in which it tries again."""
    config = SimpleNamespace(verify_ssl=True, http_timeout=5)
    store: Any = SimpleNamespace(url=address, config=config, session=requests.Session(), _last_authenticated=None)
    store._handle_response = RestZenStore._handle_response
    store._request = lambda *arguments, **options: RestZenStore._request(store, *arguments, **options)
    try:
        RestZenStore.get(store, "/info")
    except Exception as raised:
        return raised
    raise AssertionError("the server has answered")


def told(error: Exception, resume: str | None = RESUME) -> tuple[str, str, int]:
    found = server_error(error, resume)
    assert found is not None
    assert found.where == WHERE
    return found.what, found.fix, found.exit_code


def test_a_server_that_is_gone_ends_a_run_that_can_be_resumed_and_keeps_another_from_beginning():
    error = asked(f"http://127.0.0.1:{free_port()}")
    what, fix, code = told(error)
    assert (what.startswith("ZenML's server fails: ConnectionError"), "is kept" in what) == (True, True)
    assert fix.endswith(f", then `{RESUME}`")
    assert (code, type(server_error(error, RESUME))) == (1, StackAwayError)
    what, fix, code = told(error, None)
    assert ("is kept" in what, fix.endswith(", then start again"), code) == (False, True, 2)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (500, '{"detail": ["RuntimeError", "database or disk is full"]}', "database or disk is full"),
        (502, "no gateway", "no gateway"),
        (403, '{"detail": ["IllegalOperationError", "Insufficient permissions"]}', "Insufficient permissions"),
    ],
)
def test_a_server_that_is_full_or_broken_or_refuses_is_told_in_its_own_words(status, body, said):
    with answering(status, body) as address:
        assert said in told(asked(address))[0]


def test_what_was_raised_while_the_server_was_asked_counts_and_what_is_not_of_the_server_does_not():
    gone = asked(f"http://127.0.0.1:{free_port()}")
    later = RuntimeError("the step has failed")
    later.__context__ = gone
    assert told(later)[0].startswith("ZenML's server fails")
    later.__suppress_context__ = True  # as `raise ... from None` does
    assert server_error(later, RESUME) is None
    assert server_error(requests.exceptions.ConnectionError("a judge"), RESUME) is None
    with answering(404, '{"detail": ["KeyError", "no such run"]}') as address:
        assert server_error(asked(address), RESUME) is None  # the server is well, and says what it has
    with answering(422, '{"detail": ["ValueError", "no such filter"]}') as address:
        assert server_error(asked(address), RESUME) is None


@pytest.mark.slow
def test_a_secret_in_what_a_server_says_is_not_told(monkeypatch):
    monkeypatch.setattr(stack, "hide", lambda text: text.replace("secret-word", "***"))
    with answering(500, "x secret-word") as address:
        assert "RuntimeError: x ***. " in told(asked(address))[0]
