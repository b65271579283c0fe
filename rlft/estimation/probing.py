"""Runs the probe in a process of its own, which ends with its time or this process, and reads what it has measured."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlft.config import Config
from rlft.errors import EngineError, RlftError
from rlft.estimation.memory import memory_error

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from rlft.estimation.probe import main; main()"
_KILLED = -signal.SIGKILL
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe has measured, in its order, after so many `seconds`; `cut` says that its time was over.

    `busy` is how many programs each core of the machine had to do meanwhile, at least 1.
    """

    lines: Sequence[Mapping[str, Any]]
    seconds: float
    cut: bool
    busy: float = 1.0

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the measurements of a kind."""
        return [line for line in self.lines if line["kind"] == kind]


def run_probe(config: Config, seconds: float) -> Probed:
    """Probe a config for at most so many seconds, its start included.

    Raises EngineError where others may use the engine, MemoryShortError if memory ran out, RlftError as the probe's own
    error says, or if the time was over before a round was measured.
    """
    if not config.rollout.kind.restarts:
        raise EngineError(
            "a probe would put other weights into the servers, and a run may be sampling there",
            where="rollout.engine",
            fix="estimate with --set rollout.engine=transformers",
        )
    began = time.time()
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def die_with_parent() -> None:
        if libc is not None:
            libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)

    read, write = os.pipe()
    with open(read, encoding="utf-8") as answers:
        process = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(sys.path), str(write)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[write],
            text=True,
            process_group=0,  # to be ended with what it starts; a session of its own may get more of the cores
            preexec_fn=die_with_parent,
        )
        os.close(write)
        asked = json.dumps({"config": config.model_dump(mode="json"), "seconds": seconds, "began": began})
        cut = False
        try:
            process.communicate(asked, timeout=seconds)
        except subprocess.TimeoutExpired:
            cut = True
        finally:
            _end(process)
        lines = _lines(answers.read())
    busy = max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0)
    probed = Probed([line for line in lines if line["kind"] != "error"], time.time() - began, cut, busy)
    _check(config, probed, [line for line in lines if line["kind"] == "error"], process.returncode)
    return probed


def _check(config: Config, probed: Probed, errors: Sequence[Mapping[str, Any]], code: int) -> None:
    """Raise the error that a probe ended with, if it measured too little."""
    stage = "the probe"
    if errors:
        [error] = errors
        if error["shortage"] in ("memory", "gpu"):
            raise memory_error(stage, ("model", "sampling", "updates"), config, error["shortage"], error["what"])
        raise RlftError(error["what"], where=error.get("where") or stage, fix=error.get("fix", ""))
    if code == _KILLED and not probed.cut:  # by the system, which ends what takes too much memory
        raise memory_error(stage, ("model", "sampling", "updates"), config, "memory", "")
    if not probed.of("round"):
        how = f"its {probed.seconds:.0f} s were over" if probed.cut else "its process has ended"
        raise RlftError(
            f"no attempt could be measured: {how} after {', '.join(_done(probed)) or 'nothing'}",
            where=stage,
            fix="give it more time (--seconds 300)",
        )


def _done(probed: Probed) -> list[str]:
    return [str(line["kind"]).replace("_", " ") for line in probed.lines]


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and all that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # it has ended, and left nothing
        return
    finally:
        process.wait()


def _lines(text: str) -> list[dict[str, Any]]:
    """Return what was measured; a line that was cut off is none."""
    whole = text.rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]
