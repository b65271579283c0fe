"""Writing to the artifact store, with an error that says what to do when it does not take it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rlft.errors import StorageError


@contextmanager
def writing(where: str) -> Iterator[None]:
    """Turn what the operating system says of a full or broken disk into a StorageError that names `where`."""
    try:
        yield
    except OSError as cause:
        raise StorageError(
            f"could not be written: {cause}",
            where=where,
            fix="make room on the disk or the artifact store, then `rlft resume` this run",
        ) from cause
