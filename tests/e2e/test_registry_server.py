"""Deciding about versions on a real MLflow server: who does it, and a process or a server that dies in the middle."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from mlops.registry.client import RegistryClient
from mlops.registry.decisions import read_history
from tests.e2e.conftest import ROOT, Home, free_port
from tests.e2e.test_stack import wait_for
from tests.mlops.registry.small_policy import SmallRegistry
from tests.needs import need
from tests.servers_away import tracker

pytestmark = pytest.mark.slow
# Rolls back, and kills its own process, or the server's, at a write: before it is made, or after it.
DYING = """
import os, signal, sys
from mlflow import MlflowClient
victim, at, after = int(sys.argv[1]) or os.getpid(), int(sys.argv[2]), sys.argv[3] == "after"
count = 0
def counted(write):
    def written(*arguments, **named):
        global count
        count += 1
        if count == at and not after:
            os.kill(victim, signal.SIGKILL)
        done = write(*arguments, **named)
        if count == at and after:
            os.kill(victim, signal.SIGKILL)
        return done
    return written
for name in ("set_registered_model_tag", "set_registered_model_alias", "set_model_version_tag"):
    setattr(MlflowClient, name, counted(getattr(MlflowClient, name)))
from cli.__main__ import main
main(sys.argv[4:])
"""


@contextmanager
def server(folder: Path, port: int, *more: str, **variables: str):
    """A real MLflow server over a folder; yields its process."""
    log = folder / "server.log"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}", *more]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=output, env=os.environ | variables, start_new_session=True
        )
    try:
        wait_for(f"http://127.0.0.1:{port}", process, log)
        yield process
    finally:
        with suppress(ProcessLookupError):  # a test has killed it
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ZENML_", "RLFT_", "MLFLOW_"))}
    return kept | {"PYTHONPATH": str(ROOT), "MLFLOW_DISABLE_TELEMETRY": "true"} | more


@dataclass(frozen=True)
class Client(Home):
    """A folder from which a server is asked, with these variables besides."""

    more: dict[str, str]

    def environment(self) -> dict[str, str]:
        return environment(self.folder, **self.more)


def rlft(folder: Path, *arguments: str, dying: tuple[str, ...] = (), **more: str) -> subprocess.CompletedProcess[str]:
    client = Client(folder, more)
    return client.code(DYING, *dying, *arguments) if dying else client.module("cli", *arguments)


def test_a_process_that_is_killed_and_a_server_that_dies_leave_a_champion_and_a_true_history(tmp_path):
    """The writes of a rollback are the note and the alias."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with tracker(port, tmp_path):
        registry = SmallRegistry(tmp_path, address=address)
        for _ in range(2):
            registry.register()
        where = ("small", "--tracking-uri", address)
        killed = rlft(tmp_path, "rollback", *where, "--reason", "first", dying=("0", "2", "before"))
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert (registry.champion(), versions(address)) == ("2", ["1", "2"])
        killed = rlft(tmp_path, "rollback", *where, "--reason", "second", dying=("0", "2", "after"))
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert (registry.champion(), versions(address)) == ("1", ["1", "2", "1"])
    # A server that dies before the alias: the command says that it does not answer.
    with tracker(port, tmp_path) as victim:
        died = rlft(tmp_path, "rollback", *where, "--to", "2", "--reason", "third", dying=(str(victim), "2", "before"))
        assert (died.returncode, "did not answer" in died.stderr) == (5, True), died.stderr
        assert "Traceback" not in died.stderr
        assert not psutil.pid_exists(victim)
    with tracker(port, tmp_path):
        assert (registry.champion(), versions(address)) == ("1", ["1", "2", "1"])
        shown = json.loads(rlft(tmp_path, "history", *where, "--json").stdout)
        assert [each["why"] for each in shown["history"][2:]] == [["second"]]
        again = rlft(tmp_path, "rollback", *where, "--to", "2", "--reason", "fourth")
        assert again.returncode == 0, again.stderr
        assert versions(address) == ["1", "2", "1", "2"]


def versions(address: str) -> list[str | None]:
    return [each.version for each in read_history(RegistryClient(address), "small").history]


def test_the_user_whom_the_server_knows_is_noted_and_a_wrong_password_decides_nothing(tmp_path, monkeypatch):
    need(importlib.util.find_spec("flask_wtf") is not None, "Flask-WTF", "make setup")
    config = tmp_path / "auth.ini"
    config.write_text(
        f"[mlflow]\ndefault_permission = READ\ndatabase_uri = sqlite:///{tmp_path}/auth.db\nadmin_username = carla\n"
        "admin_password = a-long-password\nauthorization_function = "
        "mlflow.server.auth:authenticate_request_basic_auth\ngrant_default_workspace_access = false\n"
    )
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    secrets = {"MLFLOW_AUTH_CONFIG_PATH": str(config), "MLFLOW_FLASK_SERVER_SECRET_KEY": "x" * 32}
    carla = {"MLFLOW_TRACKING_USERNAME": "carla", "MLFLOW_TRACKING_PASSWORD": "a-long-password"}
    for name, value in carla.items():
        monkeypatch.setenv(name, value)
    with server(tmp_path, port, "--app-name", "basic-auth", **secrets):
        registry = SmallRegistry(tmp_path, address=address)
        registry.register()
        registry.register()
        where = ("small", "--tracking-uri", address)
        wrong = rlft(
            tmp_path, "rollback", *where, "--reason", "r", **carla | {"MLFLOW_TRACKING_PASSWORD": "another-one"}
        )
        assert wrong.returncode == 5, wrong.stderr
        assert "another-one" not in wrong.stderr
        assert registry.champion() == "2"
        done = rlft(tmp_path, "rollback", *where, "--reason", "it is rude", **carla)
        assert (done.returncode, "noted: carla: it is rude" in done.stdout) == (0, True), done.stderr
        past = json.loads(rlft(tmp_path, "history", *where, "--json", **carla).stdout)["history"]
        assert [(each["version"], each["by"]) for each in past] == [
            ("1", "carla"),
            ("2", "carla"),
            ("1", "carla"),
        ]
