"""Calls an environment's methods, coroutines or plain functions, so that a plain one does not block the event loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rlft.secrets import hide_in
from rlft.threads import ask_to_end


async def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function and return its result, awaited if it is awaitable; a plain function runs in a thread of its own.

    Raises what the function raises, with the values of secret variables hidden (`rlft.secrets`). What would end the
    event loop for everyone (SystemExit, a cancellation that nobody asked for) becomes a RuntimeError.
    """
    try:
        if inspect.iscoroutinefunction(function):
            result = await function(*args, **kwargs)
        else:
            result = await in_thread(lambda: function(*args, **kwargs))
        return await result if inspect.isawaitable(result) else result  # either kind may return a client's coroutine
    except (Exception, GeneratorExit) as error:
        hide_in(error)
        raise
    except BaseException as raised:
        task = asyncio.current_task()
        if isinstance(raised, asyncio.CancelledError) and task is not None and task.cancelling():
            raise  # the caller's own cancellation, such as a time-out
        raise RuntimeError(f"{type(raised).__name__}: {raised}") from raised


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

    thread = threading.Thread(target=run, name="rlft-tool", daemon=True)
    thread.start()
    try:
        return await future
    except asyncio.CancelledError:
        ask_to_end(thread)
        raise
