"""Keeps one event loop for the life of an environment.

The connections of its asynchronous clients belong to the loop they were made in, and break in another one.
"""

from __future__ import annotations

import asyncio
import weakref
from asyncio import AbstractEventLoop

_SLOT = "_rlft_loop"


def take_loop(owner: object | None) -> AbstractEventLoop:
    """Return the loop that was last given back for `owner`, or a new one where there is none or it is in use.

    The new loop is closed when `owner` is garbage-collected; without an owner `give_loop_back` closes it.
    """
    kept = owner.__dict__.pop(_SLOT, None) if owner is not None else None  # atomic, as two threads may ask at once
    if kept is not None:
        return kept
    loop = asyncio.new_event_loop()
    if owner is not None:
        weakref.finalize(owner, _close, loop)
    return loop


def give_loop_back(owner: object | None, loop: AbstractEventLoop) -> None:
    """Keep a stopped loop for the owner's next `take_loop`; close it if there is no owner, or if it has one already."""
    if owner is None or owner.__dict__.setdefault(_SLOT, loop) is not loop:
        loop.close()


def _close(loop: AbstractEventLoop) -> None:
    if not loop.is_running():  # one that runs is stuck in code that was left behind, and cannot be closed
        loop.close()
