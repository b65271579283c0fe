"""An MLflow server, or what stands before it, that answers 200 and nothing that MLflow would say."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mlops.registry.named import current_champion
from mlops.tracking.answers import answering
from mlops.tracking.run import Tracker
from rlft.errors import TrackerError

BODIES = {
    "empty": b"",
    "an empty object": b"{}",
    "null": b"null",
    "a list": b"[]",
    "HTML": b"<html>Sign in</html>",
    "cut short": b'{"registered_model": {"na',
    "another model": b'{"registered_model": {"name": "other", "aliases": []}}',
    "no model": b'{"registered_model": null}',
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


@pytest.fixture(autouse=True)
def _no_retries(monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_no_answer_means_that_there_is_no_champion(body):
    with saying(body) as address, pytest.raises(TrackerError, match="the tracker did not answer: "), answering(address):
        current_champion(address, "tiny")


def test_an_answer_whose_rest_does_not_come_is_none():
    with saying(b"{}", longer=100) as address, pytest.raises(TrackerError, match="did not answer"), answering(address):
        current_champion(address, "tiny")


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_what_is_tracked_is_kept_on_disk_and_training_goes_on(tmp_path, body):
    with saying(body) as address:
        tracker = Tracker.open(address, "experiment", "root", "run", missed_path=tmp_path / "missed.json")
        tracker.log_metrics({"reward": 1.0}, 1)
        assert tracker.run_id is None
    assert "reward" in (tmp_path / "missed.json").read_text()
