"""Programs that serve: started with their log in a file, watched, and ended with all that they have started."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import httpx
import psutil

from rlft.errors import EngineError
from rlft.texts.characters import visible
from rlft.texts.secrets import hide

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
_ENDS_WITHIN = 4.0  # seconds between SIGTERM and SIGKILL
_ASKED_EVERY, _ASK_SECONDS = 0.3, 5.0
_LAST_WORDS, _ERRORS = 15, 5  # the last lines of a log, and of those before them the last that name an error
_ERROR = re.compile(r"\b\w*(?:Error|Exception): ")


class StoppedError(Exception):
    """The server was told to end while a program was starting."""


class Child:
    """A program in a session of its own, so that the terminal's Ctrl-C reaches only the process that ends it."""

    def __init__(self, what: str, command: Sequence[str], variables: Mapping[str, str], log: Path) -> None:
        self.what, self.log = what, log
        libc = ctypes.CDLL(None) if sys.platform == "linux" else None

        def die_with_parent() -> None:
            if libc is not None:
                libc.prctl(_DIE_WITH_PARENT, signal.SIGTERM)

        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self) -> int:
        """The number of the process, which is that of its session, too."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """With what the program has ended; `None` while it runs."""
        return self._process.poll()

    def wait_until_healthy(self, url: str, within: float, stop: threading.Event) -> None:
        """Wait until `url` answers 200.

        Raises EngineError with the program's last words if it ends before that or takes longer than `within` seconds,
        and StoppedError once `stop` is set.
        """
        deadline = time.monotonic() + within
        with httpx.Client(timeout=_ASK_SECONDS, trust_env=False) as client:
            while True:
                if stop.is_set():
                    raise StoppedError
                with suppress(httpx.HTTPError):  # it does not listen yet
                    if client.get(url).status_code == 200 and self.exit_code is None:
                        return
                if self.exit_code is not None:
                    raise self.died(f"{self.what} did not start: it ended with exit code {self.exit_code}")
                if time.monotonic() > deadline:
                    raise self.died(f"{self.what} did not answer within {within:g} s")
                stop.wait(_ASKED_EVERY)

    def died(self, what: str) -> EngineError:
        """Return an error that says `what`, with the errors in the program's log and its last lines."""
        log = hide(self.log.read_text(encoding="utf-8", errors="replace")).splitlines()
        lines = [*dict.fromkeys(line for line in log[:-_LAST_WORDS] if _ERROR.search(line))][-_ERRORS:]
        lines += log[-_LAST_WORDS:]
        words = "\n".join(f"    {visible(line)}" for line in lines) or "    (nothing)"
        return EngineError(f"{what}; its last words:\n{words}", fix="mend what they name, and start again")

    def stop(self) -> None:
        """End the program and all that it has started: by SIGTERM, and after four seconds by SIGKILL."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_WITHIN)
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_WITHIN)
        end_session(self.pid)


def end_session(leader: int) -> None:
    """End all processes of a session, by SIGTERM and after four seconds by SIGKILL; its leader may have ended."""
    found = _others(leader)
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        if os.getsid(leader) == leader:
            found.append(psutil.Process(leader))
    for process in found:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    for process in psutil.wait_procs(found, timeout=_ENDS_WITHIN)[1]:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _others(leader: int) -> list[psutil.Process]:
    """Return the other processes of a session: children that were left by their parents belong to it, too."""
    found = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, PermissionError):
            if process.pid != leader and os.getsid(process.pid) == leader:
                found.append(process)
    return found


def free_port(address: str = "127.0.0.1") -> int:
    """Return a port of an address of this machine that nobody listens on now."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as free:
        free.bind((address, 0))
        return int(free.getsockname()[1])


SERVER = "vllm.entrypoints.openai.api_server"  # what `vllm serve` starts; that command looks for a package "vllm"
