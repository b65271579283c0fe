"""Where MLflow is, and that whatever it answers instead of the champion becomes one sentence, soon."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from mlflow.exceptions import MlflowException, RestException

from mlops.registry.client import current_champion
from mlops.tracking import address as asked
from mlops.tracking.address import answering, pages, tracking_address
from mlops.tracking.run import Tracker
from rlft.errors import PolicyError, TrackerError
from tests.servers_away import hanging_server

GONE = "http://someone:hunter2@127.0.0.1:9"


def test_a_server_that_is_gone_is_a_sentence_at_once():
    started = time.monotonic()
    with pytest.raises(TrackerError) as caught, answering(GONE):
        current_champion(GONE, "name")
    assert time.monotonic() - started < 3
    assert caught.value.what == "the tracker did not answer: nobody listens there, or the connection was cut"
    assert caught.value.exit_code == 5
    assert "hunter2" not in str(caught.value)


@pytest.mark.slow
def test_a_server_that_hangs_is_given_up_after_the_probe(monkeypatch):
    monkeypatch.setattr(asked, "PROBE_SECONDS", 0.5)
    started = time.monotonic()
    with (
        hanging_server() as address,
        pytest.raises(TrackerError, match=r"did not answer: nothing within 0\.5 s"),
        answering(address),
    ):
        pytest.fail("it must not be asked")
    assert time.monotonic() - started < 3


def test_a_server_that_hangs_after_the_probe_costs_two_time_limits(monkeypatch):
    monkeypatch.setattr(asked, "check_reachable", lambda uri: None)
    started = time.monotonic()
    limits = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "1"}
    with hanging_server() as address, pytest.raises(TrackerError) as caught, answering(address, limits):
        current_champion(address, "name")
    assert 2 <= time.monotonic() - started < 12  # MLflow pauses before it tries again
    assert caught.value.what.startswith("the tracker did not answer: API request to http://127.0.0.1:")
    assert "object at 0x" not in caught.value.what


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (
            RestException({"error_code": "RESOURCE_EXHAUSTED", "message": "Quota of 100 versions\nis reached"}),
            "the tracker refused it: RESOURCE_EXHAUSTED: Quota of 100 versions is reached",
        ),
        (
            RestException({"error_code": "PERMISSION_DENIED", "message": "Permission denied"}),
            "the tracker refused it: PERMISSION_DENIED: Permission denied",
        ),
        (RuntimeError("AccessDenied: PutObject"), "the tracker's store failed: RuntimeError: AccessDenied: PutObject"),
        (MlflowException("too many 503 error responses"), "the tracker did not answer: too many 503 error responses"),
    ],
)
def test_what_a_registry_answers_at_the_end_is_a_sentence(raised, said, tmp_path):
    with pytest.raises(TrackerError) as caught, answering(f"sqlite:///{tmp_path}/mlflow.db"):
        raise raised
    assert caught.value.what == said


@pytest.mark.parametrize("raised", [TypeError("a mistake"), PolicyError("no weights"), OSError(errno.ENOSPC, "full")])
def test_what_is_no_answer_stays_what_it_is(raised, tmp_path):
    with pytest.raises(type(raised)) as caught, answering(f"sqlite:///{tmp_path}/mlflow.db"):
        raise raised
    assert caught.value is raised


def test_mlflow_of_the_home_is_where_the_home_lies_now(monkeypatch):
    monkeypatch.setenv("RLFT_TRACKING_URI", "sqlite:////now/mlflow.db")
    assert tracking_address("home") == "sqlite:////now/mlflow.db"
    assert tracking_address("https://mlflow.example.org") == "https://mlflow.example.org"


BODIES = {
    "null": b"null",
    "a list": b"[]",
    "HTML": b"<html>Sign in</html>",
    "cut short": b'{"registered_model": {"na',
}


@contextmanager
def saying(body: bytes, longer: int = 0) -> Iterator[str]:
    """A server that answers everything with this body; `longer` bytes of it never come."""

    class Says(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(200)
            self.send_header("content-length", str(len(body) + longer))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PATCH = do_GET

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Says)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def no_retries(monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


@pytest.mark.usefixtures("no_retries")
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_no_answer_means_that_there_is_no_champion(body):
    with saying(body) as address, pytest.raises(TrackerError, match="the tracker did not answer: "), answering(address):
        current_champion(address, "tiny")


@pytest.mark.usefixtures("no_retries")
def test_an_answer_whose_rest_does_not_come_is_none():
    with saying(b"{}", longer=100) as address, pytest.raises(TrackerError, match="did not answer"), answering(address):
        current_champion(address, "tiny")


@pytest.mark.slow
@pytest.mark.usefixtures("no_retries")
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_what_is_tracked_is_kept_on_disk_and_training_goes_on(tmp_path, body):
    with saying(body) as address:
        tracker = Tracker(address, "experiment", "root", "run", missed_path=tmp_path / "missed.json")
        tracker.log_metrics({"reward": 1.0}, 1)
        assert tracker.run_id is None
    assert "reward" in (tmp_path / "missed.json").read_text()


def test_all_pages_are_read():
    class Page(list):
        def __init__(self, names: list[str], token: str | None) -> None:
            super().__init__(names)
            self.token = token

    answers = {None: Page(["a", "b"], "2"), "2": Page(["c"], None)}
    assert list(pages(lambda page_token: answers[page_token])) == ["a", "b", "c"]
