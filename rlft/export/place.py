"""A new folder that is there completely or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rlft.errors import RlftError, StorageError
from rlft.files import folder_prefix, remove_left_behind

_KIND = "export"


def check_target(target: Path) -> Path:
    """Return the absolute path of a folder that is to be written, without symbolic links.

    Raises RlftError if something is there, except an empty folder, or if nothing can be written there.
    """
    resolved = target.expanduser().resolve()
    if resolved.is_dir():
        taken = next(resolved.iterdir(), None)
        if taken is not None:
            raise RlftError(
                f"the folder is not empty: it holds {taken.name}", where=str(target), fix="name a new folder"
            )
    elif resolved.exists():
        raise RlftError("this is a file", where=str(target), fix="name a new folder")
    _check_writable(resolved)
    return resolved


def _check_writable(target: Path) -> None:
    """Raise RlftError if no folder can be made where `target` is to be; a disk that is full may have room later."""
    there = next(folder for folder in (target, *target.parents) if folder.exists())
    try:
        os.rmdir(tempfile.mkdtemp(prefix=folder_prefix(_KIND), dir=there))
    except OSError as cause:
        if cause.errno not in (errno.ENOSPC, errno.EDQUOT):
            what = f"cannot be written to: {cause.strerror}"
            raise RlftError(what, where=str(target), fix="name a folder that you can write to") from cause


@contextmanager
def written_aside(target: Path) -> Iterator[Path]:
    """Yield a folder beside `target`, and move it there at the end; it is removed if anything is raised.

    What a killed process left beside it goes first. Raises StorageError if the disk does not take it, or if something
    has come to be at `target` meanwhile.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_left_behind(_KIND, target.parent)
        aside = Path(tempfile.mkdtemp(prefix=folder_prefix(_KIND), dir=target.parent))
    except OSError as cause:
        raise _not_written(target, cause) from cause
    try:
        folder = aside / target.name
        folder.mkdir()  # with the access that folders have here; the one around it is for its owner alone
        yield folder
        os.replace(folder, target)  # an empty folder is replaced, any other one is not
    except OSError as cause:
        raise _not_written(target, cause) from cause
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _not_written(target: Path, cause: OSError) -> StorageError:
    return StorageError(
        f"the export could not be written: {cause}", where=str(target), fix="make room, or name another folder"
    )
