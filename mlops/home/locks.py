"""Locks of files in a home. However the process that holds one ends, the kernel releases it."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil

from mlops.home.folder import REMOVING, Home
from rlft.errors import StorageError

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


def removal_lock(home: Home) -> AbstractContextManager[None]:
    """Return the lock under which a process removes runs of the home.

    Entering it raises StorageError if another process holds it.
    """

    def refused(holder: str) -> StorageError:
        what = f"{holder} removes runs of this home"
        return StorageError(what, where=str(home.root), fix="wait until it has ended")

    return locked(home.root / REMOVING, seconds=0, refused=refused)


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
