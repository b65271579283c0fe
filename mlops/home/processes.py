"""Locks of files in a home, so that no two processes do the same at once, and others see which runs go on.

However the process that holds a lock ends, the kernel releases it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import IO

import psutil

from mlops.home.folder import Home
from rlft.errors import RlftError, StorageError

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


class NameHeldError(RlftError):
    """Another process of the home holds a run."""


def resume_command(name: str, stack: str | None) -> str:
    """Return the command that goes on with the run of this name."""
    return f"rlft resume {quote(name)}" + (f" --stack {quote(stack)}" if stack else "")


def with_command(said: str, resume: str | None) -> str:
    """Return an error's text with the command that goes on with its run in place of the bare `rlft resume`.

    What `rlft` raises does not know the run's name, and a person who reads it has to copy the command.
    """
    return said.replace("`rlft resume`", f"`{resume}`") if resume else said


LOCK = "lock"  # in the folder of a run
_CLAIM_SECONDS = 1.0  # another process may look whether the run goes on
_claimed: set[Path] = set()  # by this process


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold a run, by its folder, for this process, which other processes see as that the run goes on.

    Raises NameHeldError if another process of this home holds it.
    """

    def refused(holder: str) -> RlftError:
        fix = "wait for it, or end its process first"
        return NameHeldError(f"{holder} has begun {folder.name} or goes on with it", where="RUN", fix=fix)

    if folder in _claimed:
        yield
        return
    with locked(folder / LOCK, seconds=_CLAIM_SECONDS, refused=refused):
        _claimed.add(folder)
        try:
            yield
        finally:
            _claimed.remove(folder)


def goes_on(folder: Path) -> bool:
    """Return whether another process holds a run, by its folder."""
    if folder in _claimed:
        return False
    try:
        with (folder / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
