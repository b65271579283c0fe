"""The lock of a schedule: held by the process that looks after a run, and by the run itself.

The run inherits the open file, so the kernel holds the lock until both have ended, however they end. So nothing has to
be noted between the start of a run and the note of its process, where a kill would leave a run that nobody knows of.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mlops.home.folder import Home
from mlops.schedules.store import folder_of

_GLANCE_SECONDS = 0.05


@contextmanager
def schedule_lock(home: Home, name: str, pause: Callable[[], bool]) -> Iterator[int | None]:
    """Hold the lock of a schedule, and yield its descriptor, which a run is to inherit.

    `pause` is called while another process has it: it waits a moment and returns whether to go on waiting; if it does
    not, nothing is held, and `None` is yielded.
    """
    descriptor = os.open(_file(home, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor if _taken(descriptor, _after_a_glance(pause)) else None
    finally:
        os.close(descriptor)  # and no unlock, which would release it for the run as well


def is_held(home: Home, name: str) -> bool:
    """Return whether a run of a schedule goes on, or something looks after one."""
    file = _file(home, name)
    if not file.is_file():
        return False
    descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    try:
        return not _taken(descriptor, lambda: False)
    finally:
        os.close(descriptor)


def _after_a_glance(pause: Callable[[], bool]) -> Callable[[], bool]:
    """Wait for a moment before `pause` is asked: whoever asks whether the lock is held has it so long."""
    glances = iter([_GLANCE_SECONDS])

    def wait() -> bool:
        if (seconds := next(glances, None)) is None:
            return pause()
        time.sleep(seconds)
        return True

    return wait


def _taken(descriptor: int, pause: Callable[[], bool]) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not pause():
                return False
        else:
            return True


def _file(home: Home, name: str) -> Path:
    return folder_of(home) / f"{name}.lock"
