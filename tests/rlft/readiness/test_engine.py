"""An engine that is not there is told before anything starts: vLLM by its package, a server by asking it."""

from __future__ import annotations

import importlib.util
import json
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from rlft.config import EngineSettings, ServerSettings, VllmSettings
from rlft.engines.ordered import is_installed
from rlft.errors import EngineError
from rlft.readiness import engine
from rlft.readiness.engine import check_engine


@pytest.fixture
def serve():
    """Starts servers that give every question one answer: a status and a text."""
    servers = []

    def start(status: int, text: str) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def asked(*addresses: str) -> EngineSettings:
    return EngineSettings(engine="vllm_server", server=ServerSettings(addresses=list(addresses)))


def refusal(settings: EngineSettings) -> EngineError:
    with pytest.raises(EngineError) as caught:
        check_engine(settings)
    return caught.value


def test_vllm_that_is_missing_is_named_with_the_way_out(monkeypatch):
    monkeypatch.setattr(engine, "is_installed", lambda: False)
    error = refusal(EngineSettings(engine="vllm"))
    assert (error.where, error.what) == ("rollout.engine", "vLLM is not installed")
    assert "make setup-vllm" in error.fix
    check_engine(EngineSettings(engine="auto"))  # which does without it


def test_a_folder_called_vllm_is_not_vllm(monkeypatch, tmp_path):
    (tmp_path / "vllm").mkdir()
    # Not syspath_prepend: its undoing would leave the changed path, without any library, to the tests that follow.
    others = [path for path in sys.path if "site-packages" not in path]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *others])
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:  # other tests have imported it
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()
    assert importlib.util.find_spec("vllm") is not None  # a namespace: any folder is one
    assert not is_installed()


def test_vllm_sleeps_on_gpus_alone(monkeypatch):
    monkeypatch.setattr(engine, "is_installed", lambda: True)
    monkeypatch.setattr(engine, "why_no_gpu", lambda: "torch is built for CPUs")
    error = refusal(EngineSettings(engine="vllm", vllm=VllmSettings(sleep=True)))
    assert error.what == "vLLM only sleeps on a GPU, and torch is built for CPUs"


def test_a_server_that_names_its_model_is_there(serve):
    check_engine(asked(serve(200, json.dumps({"data": [{"id": "m"}]}))))


def test_every_server_that_is_not_there_is_named(serve):
    with socket.socket() as taken:  # bound and not listening: nobody else gets the port, and connections are refused
        taken.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}"
        page, absent = serve(200, "<html>"), serve(404, "")
        error = refusal(asked(dead, page, absent))
    assert error.where == "rollout.server.addresses"
    assert f"{dead} cannot be reached: [Errno 111] Connection refused" in error.what
    assert f"{page} answers as vLLM does not;" in error.what
    assert f"{absent} answers as vLLM does not: HTTP 404" in error.what
    assert "rlft serve-engine" in error.fix


def test_a_server_that_never_answers_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(engine, "ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert refusal(asked(address)).what == f"{address} does not answer within 0.2 s"


def test_a_proxy_is_not_asked(serve, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    check_engine(asked(serve(200, json.dumps({"data": [{"id": "m"}]}))))
