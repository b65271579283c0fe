"""Writing to the artifact store, with an error that says what to do when it does not take it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from rlft import temporary


def writing(where: str) -> AbstractContextManager[None]:
    """Turn what the operating system says of a full or broken disk into a StorageError that names `where`."""
    return temporary.writing("the artifact", where, "the disk or the artifact store")
