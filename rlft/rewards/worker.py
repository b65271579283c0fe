"""A worker thread for the code of a reward, which can be left behind when this code never returns."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoResultYet
from typing import Any

from rlft.contract.loops import give_loop_back, take_loop
from rlft.errors import RlftError
from rlft.threads import ask_to_end

logger = logging.getLogger(__name__)
MAX_LATE_IN_A_ROW = 8
"""After so many calls in a row that ran into their time limit, `RewardHangs` is raised."""
_ANSWER_SECONDS = 0.25  # how long an event loop that is not blocked may take to answer


class ScoringTimeout(Exception):
    """Raised for a call that took longer than its limit."""


class RewardHangs(RlftError):
    """Raised when scores do not return again and again: waiting for more of them is pointless."""


class RewardWorker:
    """Runs calls one after the other on a daemon thread with an event loop, each within a time limit.

    The loop is the environment's own (`rlft.contract.loops`) if the worker is given one, else a new one. It is a
    context manager, which ends the thread. The environment's loop is given back then.

    An awaitable that takes too long is cancelled. Plain code that does not return is left behind with its thread
    (which is asked to end as soon as it runs Python again) and a new thread takes over. C code that keeps the
    interpreter's lock, such as a regular expression that backtracks for ever, cannot be interrupted by any thread.
    """

    def __init__(self, environment: object | None = None) -> None:
        self._environment = environment
        self._late_in_a_row = 0
        self._start()

    def __enter__(self) -> RewardWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_ANSWER_SECONDS)

    def call(self, function: Callable[..., Any], *args: Any, timeout_seconds: float) -> Any:
        """Return what `function(*args)` returns, awaited if it is awaitable.

        Raises what it raises, `ScoringTimeout` after `timeout_seconds`, and `RewardHangs` instead when
        `MAX_LATE_IN_A_ROW` or more calls in a row were too late.
        """
        future = asyncio.run_coroutine_threadsafe(_guarded(function, args), self._loop)
        try:
            result, error = future.result(timeout_seconds)
        except NoResultYet:
            self._recover(future)
            self._count_late(timeout_seconds)
            raise ScoringTimeout(f"no score within {timeout_seconds:g} s") from None
        self._late_in_a_row = 0
        if error is not None:
            raise error
        return result

    def _count_late(self, timeout_seconds: float) -> None:
        """Count a call that was too late, and raise RewardHangs if there were too many in a row.

        One slow score is its rollout's error; many in a row mean that nothing answers any more.
        """
        self._late_in_a_row += 1
        if self._late_in_a_row == 1:
            logger.warning("a score did not come within %g s; it becomes an error of its rollout", timeout_seconds)
        if self._late_in_a_row >= MAX_LATE_IN_A_ROW:
            raise RewardHangs(
                f"the reward hangs: {self._late_in_a_row} scores in a row took longer than {timeout_seconds:g} s",
                where="compute_reward",
                fix="look for endless loops in it, see whether what it waits for (a judge, a server) is up, or raise "
                "reward.timeout_seconds",
            )

    def _start(self) -> None:
        self._loop, self._left = take_loop(self._environment), threading.Event()
        arguments = (self._loop, self._environment, self._left)
        self._thread = threading.Thread(target=_run, args=arguments, name="rlft-reward", daemon=True)
        self._thread.start()

    def _recover(self, future: Future[Any]) -> None:
        """Cancel a call that is too late; start a new thread if plain code blocks the old one."""
        future.cancel()
        answered = threading.Event()
        self._loop.call_soon_threadsafe(answered.set)
        if not answered.wait(_ANSWER_SECONDS):
            self._left.set()
            self._loop.call_soon_threadsafe(self._loop.stop)
            ask_to_end(self._thread)
            self._start()


def _run(loop: asyncio.AbstractEventLoop, environment: object | None, left: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        give_loop_back(None if left.is_set() else environment, loop)


async def _guarded(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, BaseException | None]:
    """Return (result, None) or (None, exception): a `SystemExit` raised in a task would end the loop instead."""
    try:
        result = function(*args)
        return (await result if inspect.isawaitable(result) else result), None
    except asyncio.CancelledError as error:
        if (task := asyncio.current_task()) and task.cancelling():
            raise
        return None, error
    except BaseException as error:
        return None, error
