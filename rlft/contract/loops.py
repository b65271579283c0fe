"""One event loop for the life of an environment: its clients' connections belong to the loop they were made in."""

from __future__ import annotations

import asyncio
import weakref
from asyncio import AbstractEventLoop

_SLOT = "_rlft_loop"


def take_loop(owner: object | None) -> AbstractEventLoop:
    """The loop that was last given back for an object, or a new one where there is none or it is in use."""
    kept = owner.__dict__.pop(_SLOT, None) if owner is not None else None  # at once, for two threads may ask
    if kept is not None:
        return kept
    loop = asyncio.new_event_loop()
    if owner is not None:
        weakref.finalize(owner, _close, loop)
    return loop


def give_loop_back(owner: object | None, loop: AbstractEventLoop) -> None:
    """Keep a loop that has stopped for the object's next need of one; without an object it is closed."""
    if owner is None or owner.__dict__.setdefault(_SLOT, loop) is not loop:
        loop.close()


def _close(loop: AbstractEventLoop) -> None:
    if not loop.is_running():  # it hangs in code that was left behind
        loop.close()
