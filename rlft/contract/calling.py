"""Calls an environment's methods, coroutines or plain functions, so that a plain one does not block the event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from rlft.secrets import hide_in
from rlft.workers.threads import in_thread

_kept: ContextVar[Callable[[Any], Any] | None] = ContextVar("kept", default=None)


@contextmanager
def keeping(what: Callable[[Any], Any]) -> Iterator[None]:
    """Let each `call` in this context return `what(result)`, made in the thread that the result comes from.

    So of large results of many rollouts no more is alive at once than threads are about to return.
    """
    token = _kept.set(what)
    try:
        yield
    finally:
        _kept.reset(token)


async def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function and return its result, awaited if it is awaitable; a plain function runs in a thread of its own.

    Raises what the function raises, with the values of secret variables hidden (`rlft.secrets`). What would end the
    event loop for everyone (SystemExit, a cancellation that nobody asked for) becomes a RuntimeError.
    """
    keep = _kept.get()

    def kept(result: Any) -> Any:
        return result if keep is None or inspect.isawaitable(result) else keep(result)

    try:
        if inspect.iscoroutinefunction(function):
            result = kept(await function(*args, **kwargs))
        else:
            result = await in_thread(lambda: kept(function(*args, **kwargs)))
        # Either kind may return a client's coroutine.
        return kept(await result) if inspect.isawaitable(result) else result
    except (Exception, GeneratorExit) as error:
        hide_in(error)
        raise
    except BaseException as raised:
        task = asyncio.current_task()
        if isinstance(raised, asyncio.CancelledError) and task is not None and task.cancelling():
            raise  # the caller's own cancellation, such as a time-out
        raise RuntimeError(f"{type(raised).__name__}: {raised}") from raised
