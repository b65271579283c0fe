"""Processes that begin where the imports end: torch, transformers, peft, MLflow and ZenML are imported once and forked.

    python -m tests.e2e.fork_server SOCKET

Of ZenML only what does not open a store: a store is a home's, and each process has its own. What of ours imports ZenML
makes steps, which open it, and is imported by each process.

A request is one JSON object and three file descriptors; what comes back is the process's number and, in a second line,
how it ended as `subprocess` says it, and the seconds of the processor that it took with its children.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
IMPORTED = (
    "rlft.iteration",
    "rlft.rewards.audit.environment",
    "rlft.engines.transformers_engine",
    "rlft.training.imitation",
    "rlft.tasks.reasoning_gym",
    "mlflow",
    "mlflow.pyfunc",
    "mlflow.store.tracking.sqlalchemy_store",
    "mlflow.utils.requirements_utils",
    "pandas",
    "sqlmodel",
    "alembic",
    "zenml.client",
    "zenml.execution.pipeline.dynamic.run_context",
    "zenml.zen_stores.sql_zen_store",
)
_LONGEST = 1 << 20  # bytes of a request: the environment


class ForkServer:
    """A server process and the requests to it."""

    def __init__(self, environment: dict[str, str], root: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rlft-fork-")
        self._address = str(Path(self._folder.name) / "socket")
        command = [sys.executable, "-m", "tests.e2e.fork_server", self._address]
        self._process = subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def start(
        self, module: str, arguments: list[str], folder: Path, environment: dict[str, str], files: tuple[int, int, int]
    ) -> Forked:
        """Run a module as `python -m` would, with these files as its standard ones."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._address)
        request = {"module": module, "arguments": arguments, "folder": str(folder), "environment": environment}
        socket.send_fds(connection, [json.dumps(request).encode()], list(files))
        connection.shutdown(socket.SHUT_WR)
        answers = connection.makefile("r")
        return Forked(int(answers.readline()), connection, answers)

    def close(self) -> None:
        """End the server; what it has started goes on."""
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()


@dataclass
class Forked:
    """A process that the server has started. `cpu_seconds` are those of the processor, known once it has ended."""

    pid: int
    _connection: socket.socket
    _answers: IO[str]
    cpu_seconds: float = 0.0

    def wait(self, timeout: float) -> int:
        """Its exit code, or minus the number of the signal that ended it. Kills it when the time is over."""
        self._connection.settimeout(timeout)
        try:
            code, cpu_seconds = self._answers.readline().split()
            self.cpu_seconds = float(cpu_seconds)
            return int(code)
        except TimeoutError:
            os.kill(self.pid, signal.SIGKILL)
            raise
        finally:
            self._connection.close()


def main(address: str) -> dict[str, Any]:
    """Serve until a fork of this process has a request to carry out, and give it that."""
    from mlops.home.variables import quieten

    quieten(False)
    for name in IMPORTED:
        importlib.import_module(name)
    from zenml.config.global_config import GlobalConfiguration

    from tests.e2e.copies import leave_home_out

    leave_home_out()
    assert GlobalConfiguration.get_instance() is None, "a store is open, which every command would share"
    from rlft.environments.fingerprints import imports_of

    for path in (ROOT / "rlft").rglob("*.py"):  # a run parses most of them for its cache keys
        imports_of(path.read_text(encoding="utf-8"))
    sys.modules["rlft.tasks.reasoning_gym"].import_reasoning_gym()
    # MLflow reads the metadata of all that is installed when a process registers its first model, and keeps that.
    sys.modules["mlflow.utils.requirements_utils"].warn_dependency_requirement_mismatches(["torch"])
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen()
    gc.freeze()  # a fork would look through all of it for garbage, and copy every page by that
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    ready = selectors.DefaultSelector()
    ready.register(listening, selectors.EVENT_READ)
    while True:
        for key, _ in ready.select():
            if key.data is not None:
                ready.unregister(key.fd)
                _tell_end(key.fd, *key.data)
                continue
            connection, _ = listening.accept()
            request, files = _received(connection)
            pid = os.fork()
            if pid == 0:
                for each in (listening, connection):
                    each.close()
                _take_over(request, files)
                return request
            for file in files:
                os.close(file)
            connection.sendall(f"{pid}\n".encode())
            ready.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, connection))


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    text, files, _, _ = socket.recv_fds(connection, _LONGEST, 3)
    while more := connection.recv(_LONGEST):
        text += more
    return json.loads(text), files


def _take_over(request: dict[str, Any], files: list[int]) -> None:
    """Become what `python -m` would have begun."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[0] = request["folder"]
    sys.argv[1:] = request["arguments"]


def _tell_end(file: int, pid: int, connection: socket.socket) -> None:
    os.close(file)
    _, status, used = os.wait4(pid, 0)
    answer = f"{os.waitstatus_to_exitcode(status)} {used.ru_utime + used.ru_stime}\n"
    with contextlib.suppress(OSError), connection:  # who asked may be gone
        connection.sendall(answer.encode())


def _run(module: str) -> int:
    """Run a module as `python -m` does, and return its exit code."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        raise
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


if __name__ == "__main__":
    asked = main(sys.argv[1])["module"]
    from cli.__main__ import leave

    # Taking the modules apart would copy all pages, too, for three seconds of the processor.
    codes: list[int] = []
    atexit.register(leave, codes)
    codes.append(_run(asked))
