"""Runs the probe in a process of its own, which ends with its time or this process, and reads what it has measured."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlft.config import Config
from rlft.errors import EngineError, RlftError
from rlft.estimation.machine import memory_error

# Before anything is imported a thread waits for the end of standard input, which is the end of this process.
_START = """
import json, os, sys, threading
asked = json.loads(sys.stdin.readline())
threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()
sys.path[:] = json.loads(sys.argv[1])
from rlft.estimation.probe import main
main(asked, sys.argv[2])
"""
_LOOK_SECONDS = 0.1
_STAGE = "the probe"


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe has measured, in its order, after so many `seconds`.

    `busy` is how many programs each core of the machine had to do meanwhile, at least 1.
    """

    lines: Sequence[Mapping[str, Any]]
    seconds: float
    busy: float = 1.0

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the measurements of a kind."""
        return [line for line in self.lines if line["kind"] == kind]

    def last(self, kind: str) -> Mapping[str, Any]:
        """Return the last measurement of a kind; there is at least one."""
        return self.of(kind)[-1]

    @property
    def on_gpu(self) -> bool:
        """Whether torch has used a GPU."""
        return bool(self.last("round")["gpu_memory"])


def run_probe(config: Config, seconds: float, say: Callable[[str], None] = lambda text: None) -> Probed:
    """Probe a config for so many seconds, its start included, and until a round is measured; `say` tells of a wait.

    Raises EngineError where others may use the engine, MemoryShortError if memory ran out, and RlftError as the probe's
    own error says.
    """
    if not config.rollout.kind.restarts:
        raise EngineError(
            "a probe would put other weights into the servers, and a run may be sampling there",
            where="rollout.engine",
            fix="estimate with --set rollout.engine=transformers",
        )
    began = time.time()
    with tempfile.TemporaryDirectory(prefix="rlft-probe-") as folder:
        file = Path(folder) / "measured.jsonl"
        process = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(sys.path), str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            process_group=0,  # to be ended with what it starts; a session of its own may get more of the cores
        )
        try:
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # it has ended
                asked = {"config": config.model_dump(mode="json"), "seconds": seconds, "began": began}
                process.stdin.write(json.dumps(asked) + "\n")
                process.stdin.flush()  # and left open: it ends when this process does
            _wait(process, file, seconds, say)
            ended = process.poll()
        finally:
            _end(process)
        lines = _lines(file)
    _check(config, lines, ended)
    return Probed(lines, time.time() - began, max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0))


def _wait(process: subprocess.Popen[str], file: Path, seconds: float, say: Callable[[str], None]) -> None:
    """Wait until the probe has ended, or its time is over and a round is measured."""
    end, told = time.monotonic() + seconds, False
    while process.poll() is None:
        if time.monotonic() >= end:
            done = [str(line["kind"]) for line in _lines(file)]
            if "round" in done:
                return
            if not told:
                so_far = f" so far: {', '.join(done)}" if done else ": it is still starting"
                say(f"{seconds:g} s are over, and no round is measured yet{so_far}. It goes on until one is.")
                told = True
        time.sleep(_LOOK_SECONDS)


def _check(config: Config, lines: Sequence[Mapping[str, Any]], ended: int | None) -> None:
    """Raise the error that a probe ended with."""
    uses = ("model", "sampling", "updates")
    for error in (line for line in lines if line["kind"] == "error"):
        if error["shortage"] in ("memory", "gpu"):
            raise memory_error(_STAGE, uses, config, error["shortage"], error["what"])
        raise RlftError(error["what"], where=error.get("where") or _STAGE, fix=error.get("fix", ""))
    if ended == -signal.SIGKILL:  # by the system, which ends what takes too much memory
        raise memory_error(_STAGE, uses, config, "memory", "")
    if not any(line["kind"] == "round" for line in lines):
        raise RlftError("its process ended before a round was measured", where=_STAGE, fix="see what ended it")


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and all that it has started."""
    with suppress(ProcessLookupError):  # it has ended, and left nothing
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.close()


def _lines(file: Path) -> list[dict[str, Any]]:
    """Return what was measured; a line that was cut off is none."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return [json.loads(line) for line in text.rpartition("\n")[0].splitlines()]
