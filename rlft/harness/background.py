"""A thread with an event loop in which an environment's code runs, and that can be left behind when it hangs."""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

_ANSWER_SECONDS = 1.0


class Background:
    """Runs coroutines side by side on a daemon thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="rlft-environment", daemon=True)
        self._thread.start()

    def __enter__(self) -> Background:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_ANSWER_SECONDS)

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Begin to run it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def answers(self, seconds: float) -> bool:
        """Whether the loop turns: code that neither returns nor awaits holds up all other conversations."""
        turned = threading.Event()
        self._loop.call_soon_threadsafe(turned.set)
        return turned.wait(seconds)

    def abandon(self) -> None:
        """Leave the thread behind; it is asked to end as soon as it runs Python again."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self._thread.ident or 0), ctypes.py_object(SystemExit)
        )


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
    finally:
        loop.close()
