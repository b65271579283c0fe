"""Calls an environment's methods, coroutines or plain functions, so that a plain one does not block the event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from rlft.secrets import hide_in
from rlft.workers.threads import in_thread


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
