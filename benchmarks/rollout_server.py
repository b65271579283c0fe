"""A `vllm serve` that a benchmark starts for itself, and ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import torch

from rlft.config import Config
from rlft.engines.serving import serve_command

START_SECONDS = 300.0
END_SECONDS = 30.0


@contextmanager
def serve(config: Config, port: int) -> Iterator[int]:
    """A server of the config's model on loopback, in a process group of its own, which is given.

    It also ends when this process is asked to (SIGTERM).
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory() as place:
        command, variables = serve_command(config, Path(place) / "model", port=port)
        if config.policy.device != "cpu" and torch.cuda.device_count() > 1:
            variables["CUDA_VISIBLE_DEVICES"] = "1"  # the trainer has the first
        with (Path(place) / "log").open("w+") as log:
            process = subprocess.Popen(
                command, env={**os.environ, **variables}, stdout=log, stderr=log, start_new_session=True
            )
            try:
                _wait(process, f"http://127.0.0.1:{port}/health", Path(log.name))
                yield process.pid
            finally:
                _end(process)


def free_port() -> int:
    """A port of loopback that nothing listened on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cpu_seconds(group: int) -> float:
    """Seconds that the running processes of a group have worked (Linux)."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = file.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _wait(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with suppress(httpx.HTTPError):
            if httpx.get(address, trust_env=False).status_code == 200:
                return
        time.sleep(0.2)
    raise RuntimeError(f"the server did not start:\n{log.read_text()[-4000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the whole group, then insist."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
