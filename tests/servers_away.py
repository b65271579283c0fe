"""MLflow servers that go away or hang, and commands of a home whose MLflow is at such an address.

python -m tests.servers_away PORT STORE ARTIFACTS   # serves until it is ended
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.conftest import ROOT, Home, fork_server

# What a script begins with: a stack `away`, which is this machine with its MLflow at a server, and a touch of `done`
# after the last round. The process then waits until `gone` is there.
PREPARED = """
import os, sys, time
from pathlib import Path
from mlops.home.folder import find_home
from mlops.home.variables import quieten
from mlops.stacks import stack
quieten(False)
connect = stack.connect
def connected(home, name):
    connect(home, None)
    os.environ["RLFT_TRACKING_URI"] = os.environ["MLFLOW_TRACKING_URI"] = {address!r}
    return {address!r}
stack.connect = connected
stack.connect(find_home(), None)
from pipelines.observer import Observer
note = Observer.rounds
def noted(*arguments):
    note(*arguments)
    Path("done").touch()
    while not Path("gone").exists():
        time.sleep(0.05)
Observer.rounds = noted
from cli.__main__ import main
main(sys.argv[1:])
"""
SHORT = [part for each in ("training.rounds=1", "controls=[]") for part in ("--set", each)]


@contextmanager
def tracker(port: int, folder: Path) -> Iterator[int]:
    """MLflow's server, which keeps what it has in a folder; yields the number of its process.

    It is ready at once and gone at the end, if it has not died before.

    It is a process of its own: vLLM cannot start where Flask has been imported.
    """
    log = folder / "server.log"
    with log.open("a") as said, open(os.devnull) as nothing:
        files = nothing.fileno(), said.fileno(), said.fileno()
        arguments = [str(port), store_of(folder), str(folder / "artifacts")]
        process = fork_server().start("tests.servers_away", arguments, ROOT, Home(folder).environment(), files)
    try:
        until = time.monotonic() + 120
        while not _answers(port):
            assert psutil.pid_exists(process.pid), log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        yield process.pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait(30)


def store_of(folder: Path) -> str:
    """The address of the database of the server in a folder."""
    return f"sqlite:///{folder}/server.db"


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def command(home: Home, address: str, *arguments: str) -> tuple[int, str, dict[str, Any]]:
    """Run a command whose MLflow is at an address; returns its exit code, its output and the summary."""
    done = home.code(PREPARED.format(address=address), *arguments, "--stack", "away", "--summary", "summary.json")
    return done.returncode, done.stdout + done.stderr, json.loads((home.folder / "summary.json").read_text())


@contextmanager
def hanging_server() -> Iterator[str]:
    """Yield the address of a socket that the kernel accepts connections for, and that nobody reads."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def serve(port: int, store: str, artifacts: str) -> None:
    """Serve MLflow until the process is ended."""
    from mlflow import server
    from mlflow.server.constants import ARTIFACT_ROOT_ENV_VAR, BACKEND_STORE_URI_ENV_VAR
    from werkzeug.serving import make_server

    os.environ |= {BACKEND_STORE_URI_ENV_VAR: store, ARTIFACT_ROOT_ENV_VAR: artifacts}
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    make_server("127.0.0.1", port, server.app, threaded=True).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), *sys.argv[2:])
