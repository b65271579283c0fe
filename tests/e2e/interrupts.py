"""Commands in processes that a test can interrupt: forked from one that has imported what takes long, or cold."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from tests.e2e.conftest import TINY, Home

SHORT = ("training.rounds=2", "controls=[]")
COMMAND = ("run", str(TINY), *(part for setting in SHORT for part in ("--set", setting)))
SECONDS = 240.0


@dataclass(frozen=True)
class End:
    """How a process ended."""

    code: int
    output: str


def fork(home: Home, function: Callable[..., None], *arguments: str) -> psutil.Process:
    """Call a function in a process of its own, whose output goes to `output` in the home."""
    pid = os.fork()
    if pid:
        return psutil.Process(pid)
    code = 1
    try:
        os.chdir(home.folder)
        os.environ.clear()
        os.environ.update(home.environment())
        file = os.open("output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, 1), os.dup2(file, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        function(*arguments)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)


def start_cold(home: Home, *arguments: str) -> psutil.Popen:
    """The console script in a process that imports everything itself."""
    with open(home.folder / "output", "w") as file:
        return psutil.Popen(
            [sys.executable, "-m", "cli", *arguments],
            cwd=home.folder,
            env=home.environment(),
            stdout=file,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


def wait(process: psutil.Process, home: Home) -> End:
    """Wait for its end, for a while."""
    until = time.monotonic() + SECONDS
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > until:
            process.kill()
        time.sleep(0.05)
    code = process.wait()
    return End(code, (home.folder / "output").read_text())


def import_what_takes_long() -> None:
    """Nothing of ZenML, which opens a home's stores when it is imported."""
    import datasets
    import mlflow
    import peft
    import transformers.models.llama.modeling_llama  # noqa: F401

    assert datasets, (mlflow, peft)
