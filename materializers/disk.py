"""Turns what a disk or a store says into an error that says what to do: one that is full, denies, or is away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rlft import temporary
from rlft.errors import StorageError

# The libraries of stores: what they raise of a server that does not answer is no OSError.
_LIBRARIES = ("aiobotocore", "aiohttp", "botocore", "fsspec", "s3fs", "urllib3")


@contextmanager
def writing(where: str) -> Iterator[None]:
    """Raise StorageError, which names `where`, for what goes wrong inside with the disk or the store."""
    with temporary.writing("the artifact", where, "the disk or the artifact store"):
        try:
            yield
        except Exception as cause:
            if not _is_away(cause):
                raise
            raise _away("written", where, cause) from cause


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Raise StorageError, which names `where`, for what goes wrong inside with the disk or the store.

    A file that is not there is left to the caller.
    """
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise
    except Exception as cause:
        if _is_away(cause):
            raise _away("read", where, cause) from cause
        if not isinstance(cause, OSError):
            raise
        remedy = "see that the disk or the artifact store can be read"
        if isinstance(cause, PermissionError):
            remedy = "let this user read there (on a stack: the key in ZenML's secret)"
        fix = f"{remedy}, then `rlft resume` this run"
        raise StorageError(f"the artifact could not be read: {cause}", where=where, fix=fix) from cause


def _is_away(cause: Exception) -> bool:
    """Return whether an error says that a store does not answer."""
    is_of_library = type(cause).__module__.split(".")[0] in _LIBRARIES
    return is_of_library or isinstance(cause, ConnectionError | TimeoutError)


def _away(done: str, where: str, cause: Exception) -> StorageError:
    said = str(cause) or type(cause).__name__
    what = f"the artifact could not be {done}, as its store does not answer: {said}"
    fix = "see that the artifact store can be reached from here, then `rlft resume` this run"
    return StorageError(what, where=where, fix=fix)
