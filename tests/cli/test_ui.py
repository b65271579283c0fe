"""`rlft ui`: where it listens, what it says of a place where it cannot, and which pages it names."""

from __future__ import annotations

import io
import socket
import subprocess
from types import SimpleNamespace

import pytest

from cli import ui
from cli.ui import pages, show_ui
from mlops.home.folder import Home
from rlft.errors import RlftError
from rlft.reporting.terminal import Terminal
from tests.e2e.conftest import free_port
from tests.mlops.home.making import finish


@pytest.fixture
def home(tmp_path) -> Home:
    """A home in which something was tracked."""
    finish(made := Home(tmp_path))
    return made


@pytest.fixture
def started(monkeypatch):
    """What would have been started: the command, and MLFLOW_SERVER_ALLOWED_HOSTS in its environment."""
    calls = []

    def start(command, *, start_new_session, env):
        assert start_new_session
        calls.append((command[2:], env.get("MLFLOW_SERVER_ALLOWED_HOSTS")))
        return SimpleNamespace(wait=lambda: 0)

    monkeypatch.delenv("MLFLOW_SERVER_ALLOWED_HOSTS", raising=False)
    monkeypatch.setattr(subprocess, "Popen", start)
    return calls


def shown(home, stack=None, host=None, port=None) -> str:
    console = Terminal(file=io.StringIO(), width=100)
    assert show_ui(home, stack, host, port, console) == 0
    return console.file.getvalue()


def test_pages_are_in_the_mode_that_has_the_registry():
    assert pages("http://127.0.0.1:5000/") == [
        "Runs, curves, traces: http://127.0.0.1:5000/#/experiments?workflowType=machine_learning",
        "Registered models:    http://127.0.0.1:5000/#/models",
        "Choose `Model training` above the menu once: the other mode, `GenAI`, hides the registered models.",
    ]


def test_it_listens_on_loopback_unless_told_otherwise(home, started):
    port = free_port()
    said = shown(home, port=port)
    assert f"http://127.0.0.1:{port}/#/models" in said
    assert "reaches this machine" not in said
    [(command, allowed)] = started
    assert command == [
        "mlflow", "ui", "--host", "127.0.0.1", "--port", str(port),
        "--backend-store-uri", home.tracking_uri, "--workers", "1",
    ]  # fmt: skip
    assert allowed is None  # MLflow's own: loopback and private networks


def test_another_host_is_warned_of_and_may_be_asked_by_its_name(home, started):
    port = free_port()
    said = shown(home, host="0.0.0.0", port=port)
    assert "Whoever reaches this machine there can read and change all runs" in " ".join(said.split())
    [(command, allowed)] = started
    assert command[3] == "0.0.0.0"
    assert f"{socket.gethostname()}:{port}" in allowed.split(",")
    assert "localhost:*" in allowed.split(",")
    assert "*" not in allowed.split(",")


def test_a_host_that_is_not_this_machine_is_told(home, started):
    with pytest.raises(
        RlftError, match=r"nothing can listen on port \d+ of 192\.0\.2\.1"
    ):  # for documentation: RFC 5737
        shown(home, host="192.0.2.1", port=free_port())
    assert started == []
    assert "http://localhost:" in shown(home, host="localhost", port=free_port())


def test_a_busy_port_is_told(home, started):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RlftError) as caught:
            show_ui(home, None, None, port, Terminal(file=io.StringIO()))
    assert caught.value.what.startswith(f"nothing can listen on port {port} of 127.0.0.1: ")
    assert started == []


def test_the_server_of_a_stack_is_named_and_not_started(home, started, monkeypatch):
    monkeypatch.setattr(ui, "connect", lambda home, stack: "http://mlflow.example:8080")
    assert "http://mlflow.example:8080/#/experiments?" in shown(Home(home.root / "other"), stack="mine")
    with pytest.raises(RlftError, match="runs already"):
        shown(home, stack="mine", port=5001)
    assert started == []


def test_the_database_of_a_stack_is_shown(home, started, monkeypatch, tmp_path):
    monkeypatch.setattr(ui, "connect", lambda home, stack: f"sqlite:///{tmp_path / 'theirs.db'}")
    shown(home, stack="mine", port=free_port())
    [(command, _)] = started
    assert command[command.index("--backend-store-uri") + 1] == f"sqlite:///{tmp_path / 'theirs.db'}"
