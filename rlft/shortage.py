"""Tells from an error that a machine has run out of something: room on a disk, leave to write, memory.

Libraries wrap what the operating system says: SQLAlchemy a full disk, torch an allocation that failed. So the whole
chain of an error is looked through, its texts too.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Literal

Shortage = Literal["disk", "read-only", "temporary", "memory", "gpu"]

SAID: dict[Shortage, str] = {
    "disk": "the disk is full: nothing more can be written",
    "read-only": "nothing can be written there any more",
    "temporary": "no folder takes temporary files",
    "memory": "there is too little memory",
    "gpu": "there is too little memory",
}
"""What is said of each."""
_BY_NUMBER: dict[int, Shortage] = {
    errno.ENOSPC: "disk",
    errno.EDQUOT: "disk",
    errno.EROFS: "read-only",
    errno.ENOMEM: "memory",
}
_BY_TEXT: dict[str, Shortage] = {
    "no usable temporary directory found": "temporary",
    "database or disk is full": "disk",
    "no space left on device": "disk",
    "disk quota exceeded": "disk",
    "attempt to write a readonly database": "read-only",
    "read-only file system": "read-only",
    "cuda out of memory": "gpu",
    "cuda error: out of memory": "gpu",
    "hip out of memory": "gpu",
    "can't allocate memory": "memory",
    "not enough memory: you tried to allocate": "memory",
}
_MOST = 20  # errors of a chain that are looked at


def shortage_of(error: BaseException) -> Shortage | None:
    """Return what the machine has run out of, if that is what an error or one of its causes says."""
    for each in _chain(error):
        if isinstance(each, MemoryError):
            return "memory"
        if isinstance(each, OSError) and each.errno in _BY_NUMBER:
            return _BY_NUMBER[each.errno]
        text = str(each).lower()
        for words, kind in _BY_TEXT.items():
            if words in text:
                return kind
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, what it was raised from, and what was being handled when it was raised."""
    waiting, seen = [error], set()
    while waiting and len(seen) < _MOST:
        each = waiting.pop(0)
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [cause for cause in (each.__cause__, each.__context__) if cause is not None]
