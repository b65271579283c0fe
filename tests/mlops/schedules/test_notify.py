"""Who is told what: a real server on loopback."""

from __future__ import annotations

import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from mlops.schedules.notify import check_notify, tell
from mlops.schedules.settings import NotifyConfig
from tests.e2e.conftest import free_port

SECRET = "s3cr3t-token-1234567"
TOLD = {"event": "promoted", "schedule": "weekly", "version": "3"}


class Hook:
    """A webhook that answers with these codes, the last of them again and again."""

    def __init__(self, *codes: int) -> None:
        self.got: list[tuple[str, dict]] = []
        self.codes = list(codes)
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.got.append((self.path, json.loads(body)))
                self.send_response(hook.codes.pop(0) if len(hook.codes) > 1 else hook.codes[0])
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}/hooks/s3cr3t-token-1234567"


@pytest.fixture
def hook(monkeypatch, request):
    made = Hook(*request.param)
    monkeypatch.setenv("WEEKLY_HOOK", made.address)
    yield made
    made.server.shutdown()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """No pauses between tries."""
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)


WEBHOOK = NotifyConfig(webhook="env:WEEKLY_HOOK")


@pytest.mark.parametrize("hook", [(200,), (503, 429, 204)], indirect=True)
def test_a_webhook_gets_the_json_and_is_asked_again_while_it_is_away(hook):
    wanted = len(hook.codes)
    assert tell(WEBHOOK, TOLD) == ""
    assert hook.got == [("/hooks/s3cr3t-token-1234567", TOLD)] * wanted


@pytest.mark.parametrize(("hook", "asked", "code"), [((404,), 1, 404), ((500,), 4, 500)], indirect=["hook"])
def test_what_it_refuses_is_said_without_its_address(hook, asked, code, caplog):
    caplog.set_level(logging.DEBUG)
    assert tell(WEBHOOK, TOLD) == f"the webhook in WEEKLY_HOOK was not told: it answered {code}"
    assert len(hook.got) == asked
    ours = [record for record in caplog.records if not record.name.startswith("httpcore")]
    assert "s3cr3t" not in "".join(record.getMessage() for record in ours)


@pytest.mark.parametrize(
    ("address", "is_address"),
    [
        (f"http://127.0.0.1:{{port}}/{SECRET}", True),  # where nobody listens
        (SECRET, False),
        (f"http://127.0.0.1:99999/{SECRET}", False),
        (f"https:///{SECRET}", False),
        # by which a machine hands out its credentials
    ],
)
def test_an_address_that_cannot_be_used_is_said_without_it(address, is_address, monkeypatch, caplog):
    monkeypatch.setenv("WEEKLY_HOOK", address.format(port=free_port()))
    said = tell(WEBHOOK, TOLD)
    assert "WEEKLY_HOOK" in said
    assert SECRET not in said + caplog.text
    assert (check_notify(WEBHOOK) == "") == is_address


@pytest.mark.parametrize(
    ("variable", "value"),
    [("ALL_PROXY", "socks5://127.0.0.1:1"), ("SSL_CERT_FILE", "/nowhere/at/all.pem")],
)
def test_what_the_environment_makes_of_a_webhook_is_said_and_nothing_is_raised(variable, value, monkeypatch):
    monkeypatch.setenv("WEEKLY_HOOK", f"http://127.0.0.1:{free_port()}/hook")
    monkeypatch.setenv(variable, value)
    assert tell(WEBHOOK, TOLD).startswith("the webhook in WEEKLY_HOOK was not told: ")


def test_a_variable_that_is_not_set_is_said(monkeypatch):
    monkeypatch.delenv("WEEKLY_HOOK", raising=False)
    assert "WEEKLY_HOOK" in tell(WEBHOOK, TOLD)
    assert "WEEKLY_HOOK" in check_notify(WEBHOOK)
    assert (tell(NotifyConfig(), TOLD), check_notify(NotifyConfig())) == ("", "")


def test_an_answer_without_end_is_not_waited_for(monkeypatch):
    class Endless(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"x" * 65536)
            except OSError:
                closed.set()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    closed, server = threading.Event(), HTTPServer(("127.0.0.1", 0), Endless)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("WEEKLY_HOOK", f"http://127.0.0.1:{server.server_port}")
    try:
        assert tell(WEBHOOK, TOLD) == ""
        assert closed.wait(30)
    finally:
        server.shutdown()
