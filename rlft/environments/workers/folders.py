"""Keeps the working directory of a run apart from that of an environment's code, which may change it.

Paths in a config begin where the user stood when the command began, and other stages read them after that code has run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_SLOT = "_rlft_folder"


def here() -> str | None:
    """Return the working directory of this process; `None` if it was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def enter(owner: object) -> str | None:
    """Go to the folder where the code of `owner` was last, if it has changed it, and return where this process was."""
    before = here()
    if (folder := owner.__dict__.get(_SLOT)) is not None:
        with suppress(OSError):  # it may have removed it since
            os.chdir(folder)
    return before


def leave(owner: object, before: str | None) -> None:
    """Go back to the folder `before`, and remember for `owner`, an environment or module, where its code was."""
    if (now := here()) != before and now is not None:
        owner.__dict__[_SLOT] = now
    _go(before)


def _go(folder: str | None) -> None:
    if folder is not None and here() != folder:
        with suppress(OSError):
            os.chdir(folder)


@contextmanager
def staying() -> Iterator[None]:
    """Go back to the working directory when this ends."""
    before = here()
    try:
        yield
    finally:
        _go(before)
