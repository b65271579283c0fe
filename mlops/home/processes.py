"""Locks of files in a home, and notes of the processes of its runs, so that no two processes do the same at once.

However the process that holds a lock ends, the kernel releases it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import IO

import psutil

from mlops.home.folder import Home
from rlft.errors import RlftError, StorageError
from rlft.files import write_file

logger = logging.getLogger(__name__)
_PAUSE_SECONDS = 0.05
_ALIASES_SECONDS = 120.0
_SILENT_SECONDS = 2.0  # a wait that is longer is told


@contextmanager
def locked(file: Path, *, seconds: float, refused: Callable[[str], Exception]) -> Iterator[None]:
    """Hold the lock of a file for this process, which is waited for at most so many seconds.

    Raises what `refused` makes of a text that names the process which holds it. Raises OSError if the file cannot be
    opened for writing.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+") as lock:
        if not _taken(lock, seconds):
            raise refused(_holder(lock))
        _sign(lock)
        yield


def aliases_lock(home: Home) -> AbstractContextManager[None]:
    """Return the lock under which a process registers a version in the home's MLflow and moves aliases.

    Entering it raises StorageError if another process holds it for two minutes: nothing is uploaded under it.
    """

    def refused(holder: str) -> StorageError:
        what = f"{holder} has been changing the model registry for {_ALIASES_SECONDS:.0f} s"
        return StorageError(what, where=str(home.root), fix="end it, then give this command again, or resume this run")

    return locked(home.root / "aliases.lock", seconds=_ALIASES_SECONDS, refused=refused)


def _taken(lock: IO[str], seconds: float) -> bool:
    """Wait for the lock, and return whether this process has it now."""
    begun, told = time.monotonic(), False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = time.monotonic() - begun
            if waited >= seconds:
                return False
            if waited > _SILENT_SECONDS and not told:
                told = True
                logger.info("waiting for %s, which holds %s", _holder(lock), lock.name)
            time.sleep(_PAUSE_SECONDS)
        else:
            return True


def _sign(lock: IO[str]) -> None:
    """Write this process's id into the file. On a full disk that fails, and the lock holds all the same."""
    with suppress(OSError):
        lock.seek(0)
        lock.truncate()
        lock.write(f"{os.getpid()}\n")
        lock.flush()


def _holder(lock: IO[str]) -> str:
    lock.seek(0)
    text = lock.read().strip()
    # One that has ended may have left the lock to its children.
    return f"process {text}" if text.isdecimal() and psutil.pid_exists(int(text)) else "another process"


_STARTING_SECONDS = 60  # so long a run without a note of its process may be starting


class NameHeldError(RlftError):
    """Another process of the home holds the name of a run."""


@dataclass(frozen=True, slots=True)
class Note:
    """The process of a run; `started` (seconds since the epoch) tells it from a later process with the same id."""

    pid: int
    started: float

    @property
    def is_alive(self) -> bool:
        """Whether the process still exists."""
        try:
            return abs(psutil.Process(self.pid).create_time() - self.started) < 1
        except psutil.Error:
            return False


def resume_command(name: str, stack: str | None) -> str:
    """Return the command that goes on with the run of this name."""
    return f"rlft resume {quote(name)}" + (f" --stack {quote(stack)}" if stack else "")


def with_command(said: str, resume: str | None) -> str:
    """Return an error's text with the command that goes on with its run in place of the bare `rlft resume`.

    What `rlft` raises does not know the run's name, and a person who reads it has to copy the command.
    """
    return said.replace("`rlft resume`", f"`{resume}`") if resume else said


def note_process(home: Home, run_id: str) -> None:
    """Write a note of this process into the home, so that a later one can tell whether the run is alive."""
    process = psutil.Process()
    write_file(_file(home, run_id), json.dumps(asdict(Note(process.pid, process.create_time()))))


def read_note(home: Home, run_id: str) -> Note | None:
    """Return the note of a run; `None` if there is none that can be read."""
    try:
        return Note(**json.loads(_file(home, run_id).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def goes_on(home: Home, run_id: str, began: datetime) -> bool:
    """Return whether the process of a run still exists. A run without a note counts as starting for a while."""
    note = read_note(home, run_id)
    if note is None:
        return (datetime.now(UTC) - began).total_seconds() < _STARTING_SECONDS
    return note.is_alive


def claimed(home: Home, name: str, stack: str | None) -> AbstractContextManager[None]:
    """Hold the name of a run for this process: between its checks and its note another one could begin the same run.

    `stack` is the one that the run is on: names on different stacks are different. Entering it raises NameHeldError if
    another process of this home holds the name.
    """
    key = hashlib.sha256(json.dumps([stack, name]).encode()).hexdigest()[:16]

    def refused(holder: str) -> RlftError:
        fix = "wait for it, or end its process first"
        return NameHeldError(f"{holder} has begun {name} or goes on with it", where="RUN", fix=fix)

    return locked(home.root / "runs" / f"{key}.lock", seconds=0, refused=refused)


def forget_process(home: Home, run_id: str) -> None:
    """Remove the note of a run that has ended."""
    _file(home, run_id).unlink(missing_ok=True)


def _file(home: Home, run_id: str) -> Path:
    return home.root / "runs" / f"{run_id}.process.json"
