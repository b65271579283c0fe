"""Who is told what: a real server on loopback."""

from __future__ import annotations

import json
import logging
import resource
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer

import psutil
import pytest

from mlops.schedules import notify
from mlops.schedules.notify import check_notify, tell
from rlft.schedule.settings import NotifyConfig
from tests.e2e.conftest import free_port

NO_ADDRESS = "it is no address such as https://HOST/PATH or http://HOST:PORT/PATH"
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
    assert tell(WEBHOOK, TOLD) == [f"the webhook in WEEKLY_HOOK was not told: it answered {code}"]
    assert len(hook.got) == asked
    ours = [record for record in caplog.records if not record.name.startswith("httpcore")]
    assert "s3cr3t" not in "".join(record.getMessage() for record in ours)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://127.0.0.1:{port}/s3cr3t-token-1234567", "ConnectError"),
        ("s3cr3t-token-1234567", NO_ADDRESS),
        ("http://[s3cr3t-token-1234567", NO_ADDRESS),
        ("http://127.0.0.1:99999/s3cr3t-token-1234567", NO_ADDRESS),
        ("https://127.0.0.1:-1/s3cr3t-token-1234567", NO_ADDRESS),
        ("https:///s3cr3t-token-1234567", NO_ADDRESS),
        ("https://hooks.example/s3cr3t token-1234567", NO_ADDRESS),
        ("http://hooks..example/s3cr3t-token-1234567", NO_ADDRESS),
        (
            "http://169.254.169.254/s3cr3t-token-1234567",
            "it is a link-local or metadata address, by which a machine hands out its credentials",
        ),
    ],
)
def test_an_address_that_cannot_be_used_is_said_without_it(address, said, monkeypatch, caplog):
    monkeypatch.setenv("WEEKLY_HOOK", address.format(port=free_port()))
    assert tell(WEBHOOK, TOLD) == [f"the webhook in WEEKLY_HOOK was not told: {said}"]
    assert "s3cr3t" not in caplog.text
    warned = [f"the address in WEEKLY_HOOK, which notify.webhook names: {said}"]
    assert check_notify(WEBHOOK) == ([] if said == "ConnectError" else warned)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:1", "ImportError: Using SOCKS proxy, but the 'socksio' package"),
        ("SSL_CERT_FILE", "/nowhere/at/all.pem", "a file that the environment names is not there; SSL_CERT_FILE"),
    ],
)
def test_what_the_environment_makes_of_a_webhook_is_said_and_nothing_is_raised(
    variable, value, said, monkeypatch
):
    monkeypatch.setenv("WEEKLY_HOOK", f"http://127.0.0.1:{free_port()}/hook")
    monkeypatch.setenv(variable, value)
    [problem] = tell(WEBHOOK, TOLD)
    assert problem.startswith(f"the webhook in WEEKLY_HOOK was not told: {said}")


def test_an_error_that_nobody_foresaw_is_said_by_its_kind(monkeypatch):
    def fail(*_: object) -> None:
        raise ExceptionGroup("tasks", [ExceptionGroup("inner", [OverflowError("s3cr3t")])])

    monkeypatch.setenv("WEEKLY_HOOK", "http://127.0.0.1:1/hook")
    monkeypatch.setattr(notify, "_post_once", fail)
    assert tell(WEBHOOK, TOLD) == ["the webhook in WEEKLY_HOOK was not told: OverflowError"]


def test_a_variable_that_is_not_set_is_said(monkeypatch):
    monkeypatch.delenv("WEEKLY_HOOK", raising=False)
    [said] = tell(WEBHOOK, TOLD)
    assert said.startswith("the webhook was not told: notify.webhook needs the variable WEEKLY_HOOK")
    assert check_notify(WEBHOOK) == ["notify.webhook needs the variable WEEKLY_HOOK, which is not set or empty"]
    assert check_notify(NotifyConfig()) == []


def test_a_command_gets_the_json_on_its_stdin_in_the_schedules_folder():
    settings = NotifyConfig(command=["sh", "-c", "cat > told.json; echo $RLFT_EVENT $RLFT_SCHEDULE > names"])
    assert tell(settings, TOLD) == []
    assert json.loads((tmp_path / "told.json").read_text()) == TOLD
    assert (tmp_path / "names").read_text() == "promoted weekly\n"


def test_a_command_that_fails_or_hangs_is_said(monkeypatch):
    assert tell(NotifyConfig(command=["false"]), TOLD) == [
        "the command false of notify ended with exit code 1"
    ]
    monkeypatch.setattr(notify, "COMMAND_SECONDS", 0.2)
    [said] = tell(NotifyConfig(command=["sleep", "30"]), TOLD)
    assert "took more than 0 s" in said


def test_all_that_a_command_has_begun_ends_with_it_when_it_hangs(monkeypatch):
    monkeypatch.setattr(notify, "COMMAND_SECONDS", 1.0)
    [said] = tell(NotifyConfig(command=["sh", "-c", "sleep 61.5 & echo $! > pid; wait"]), TOLD)
    assert "took more than 1 s, and was ended" in said
    inner = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 10
    while psutil.pid_exists(inner) and psutil.Process(inner).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < until, "it goes on"
        time.sleep(0.02)


def test_a_command_that_leaves_a_process_with_its_output_has_ended():
    began = time.monotonic()
    assert tell(NotifyConfig(command=["sh", "-c", "sleep 8 &"]), TOLD) == []
    assert time.monotonic() - began < 6


def test_what_a_command_writes_is_not_kept():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert tell(NotifyConfig(command=["sh", "-c", "yes | head -c 300000000"]), TOLD) == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB: of 300 MB nothing is kept


def test_the_webhook_is_told_although_the_command_fails(monkeypatch):
    made = Hook(200)
    monkeypatch.setenv("WEEKLY_HOOK", made.address)
    assert len(tell(NotifyConfig(webhook="env:WEEKLY_HOOK", command=["false"]), TOLD)) == 1
    assert len(made.got) == 1
    made.server.shutdown()


def test_an_answer_that_comes_byte_by_byte_is_not_waited_for(monkeypatch):
    class Dripping(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(self.path)
            with suppress(OSError):
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX-A: ")
                for _ in range(600):  # a minute
                    self.wfile.write(b"a")
                    over.wait(0.1)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    asked, over, server = list[str](), threading.Event(), ThreadingHTTPServer(("127.0.0.1", 0), Dripping)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("WEEKLY_HOOK", f"http://127.0.0.1:{server.server_port}/hook")
    monkeypatch.setattr(notify, "POST_SECONDS", 1.0)
    began = time.monotonic()
    try:
        said = tell(WEBHOOK, TOLD)
    finally:
        over.set()
        server.shutdown()
    assert said == ["the webhook in WEEKLY_HOOK was not told: it took more than 1 s to answer"]
    assert asked == ["/hook"] * 4
    assert time.monotonic() - began < 30  # 4 tries of 1 s; each byte by itself came in time


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
