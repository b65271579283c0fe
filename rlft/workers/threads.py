"""Runs code that may block in a thread of its own, and ends threads whose code does not return, as far as possible."""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any


def ask_to_end(thread: threading.Thread) -> None:
    """Raise SystemExit in a thread as soon as it runs Python again; C code that does not return goes on.

    Otherwise an endless loop would take half of the interpreter's time, by its lock, while the next policy trains.
    """
    # threading cannot end a thread; this C function is the only way to raise an exception in another one.
    if thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))


async def in_thread(function: Callable[[], Any]) -> Any:
    """Run a function that may block in a daemon thread of its own, and return what it returns or raise what it raises.

    When the wait is cancelled (a time-out), the thread is left behind and asked to end.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if not future.done():  # nobody waits any more after a time-out
            future.set_result(result) if error is None else future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = function()
        except Exception as raised:
            error = raised
        except BaseException as raised:
            error = RuntimeError(f"{type(raised).__name__}: {raised}")
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    thread = threading.Thread(target=copy_context().run, args=(run,), name="rlft-tool", daemon=True)
    thread.start()
    try:
        return await future
    except asyncio.CancelledError:
        ask_to_end(thread)
        raise
