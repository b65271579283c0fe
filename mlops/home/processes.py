"""Locks of files in a home, so that no two processes do the same at once, and others see which runs go on.

However the process that holds a lock ends, the kernel releases it.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from shlex import quote

from filelock import FileLock, Timeout

from mlops.home.folder import Home
from rlft.errors import RlftError, StorageError

_ALIASES_SECONDS = 120.0


@contextmanager
def locked(file: Path, *, seconds: float, refused: Callable[[], Exception]) -> Iterator[None]:
    """Hold the lock of a file for this process, which is waited for at most so many seconds.

    Raises what `refused` makes if another process holds it, and OSError if the file cannot be opened for writing.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(file)
    try:
        lock.acquire(timeout=seconds)
    except (Timeout, FileNotFoundError) as held:  # who held it may have removed its folder
        raise refused() from held
    try:
        yield
    finally:
        lock.release()


def aliases_lock(home: Home) -> AbstractContextManager[None]:
    """Return the lock under which a process registers a version in the home's MLflow and moves aliases.

    Entering it raises StorageError if another process holds it for two minutes: nothing is uploaded under it.
    """

    def refused() -> StorageError:
        what = f"another process has been changing the model registry for {_ALIASES_SECONDS:.0f} s"
        return StorageError(what, where=str(home.root), fix="end it, then give this command again, or resume this run")

    return locked(home.root / "aliases.lock", seconds=_ALIASES_SECONDS, refused=refused)


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

    def refused() -> RlftError:
        fix = "wait for it, or end its process first"
        return NameHeldError(f"another process has begun {folder.name} or goes on with it", where="RUN", fix=fix)

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
