"""Names of temporary folders, by which what a killed process left behind is found and removed; errors of full disks."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from safetensors import SafetensorError

from rlft.errors import StorageError


def folder_prefix(kind: str, *, short: bool = False) -> str:
    """Return what the names of this process's temporary folders of a kind begin with.

    A `short` one has 16 bytes beside the kind and the number of the process, however long the machine's name is.
    """
    return f"{_of_this_machine(kind, short=short)}{os.getpid()}-"


def remove_left_behind(kind: str, parent: str | Path | None = None, *, short: bool = False) -> None:
    """Remove the folders of a kind whose process on this machine has ended, in `parent` or where temporary files go.

    Those with `short` names are others than those without.

    Known limit: containers that share a host name and this folder, but not their process numbers, are not told apart,
    so that one may remove a folder that another uses.
    """
    beginning = _of_this_machine(kind, short=short)
    for old in Path(parent or tempfile.gettempdir()).glob(f"{beginning}*"):
        # The whole rest of the name must fit: on a machine `host`, the folders of `host-2` begin with `host-` as well.
        owner = re.fullmatch(r"([0-9]+)-[^-]+", old.name.removeprefix(beginning))
        if owner and not psutil.pid_exists(int(owner[1])):
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def writing(what: str, where: str, room: str = "the disk (TMPDIR may name a larger one)") -> Iterator[None]:
    """Raise StorageError, which says how to go on, if writing files within this context fails.

    `what` is being written, `where` names the place of it, and `room` is where the user should make room.
    """
    try:
        yield
    except (OSError, SafetensorError) as cause:
        fix = f"{_remedy(cause, room)}, then `rlft resume` goes on with the run"
        raise StorageError(f"{what} could not be written: {cause}", where=where, fix=fix) from cause


def _remedy(cause: Exception, room: str) -> str:
    if isinstance(cause, PermissionError):
        return "let this user write there (on a stack: the key in ZenML's secret)"
    is_read_only = isinstance(cause, OSError) and cause.errno == errno.EROFS
    return "make it writable" if is_read_only else f"make room on {room}"


def _of_this_machine(kind: str, *, short: bool) -> str:
    """Return the beginning with the name of the machine, or with eight characters that are made of it.

    Containers may share a folder, but not their process numbers.
    """
    name = platform.node() or "localhost"
    return f"rlft-{kind}-{hashlib.sha256(name.encode()).hexdigest()[:8] if short else name}-"
