"""Temporary folders that name their process, so that a later one can remove what a killed one has left; full disks."""

from __future__ import annotations

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


def folder_prefix(kind: str) -> str:
    """What the names of this process's temporary folders of a kind begin with."""
    return f"{_of_this_machine(kind)}{os.getpid()}-"


def remove_left_behind(kind: str, parent: str | Path | None = None) -> None:
    """Remove the folders of a kind whose process on this machine is no more; by default where temporary files go.

    Containers with the same host name, the same folder and process numbers of their own are not told apart: one takes
    the other's living folders for dead ones.
    """
    beginning = _of_this_machine(kind)
    for old in Path(parent or tempfile.gettempdir()).glob(f"{beginning}*"):
        # The whole rest: after `host-` the folder of a machine `host-2` goes on with a number too.
        owner = re.fullmatch(r"([0-9]+)-[^-]+", old.name.removeprefix(beginning))
        if owner and not psutil.pid_exists(int(owner[1])):
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def writing(what: str, where: str, room: str = "the disk (TMPDIR may name a larger one)") -> Iterator[None]:
    """Raises StorageError, which says how to go on, when a disk does not take what is written meanwhile.

    `room` is where the user is to make some; `where` names the place that the operating system complained of.
    """
    try:
        yield
    except (OSError, SafetensorError) as cause:
        fix = f"make room on {room}, then `rlft resume` this run"
        raise StorageError(f"{what} could not be written: {cause}", where=where, fix=fix) from cause


def _of_this_machine(kind: str) -> str:
    """Containers may share a folder and not their process numbers; their names differ."""
    return f"rlft-{kind}-{platform.node() or 'localhost'}-"
