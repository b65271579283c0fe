"""Turns a failure to write to the artifact store into an error that says what to do."""

from __future__ import annotations

from contextlib import AbstractContextManager

from rlft import temporary


def writing(where: str) -> AbstractContextManager[None]:
    """Raise StorageError, which names `where`, for what the operating system says inside of a full or broken disk."""
    return temporary.writing("the artifact", where, "the disk or the artifact store")
