"""Threads in which an environment's code runs, and which can be left behind when that code hangs.

`LoopThread` runs an event loop, which is kept for the life of an environment: the connections of its asynchronous
clients belong to the loop they were made in, and break in another one. `in_thread` runs plain code that may block.
`run_bounded` runs many jobs on such a loop, so many at once, each within a time limit.
"""

from __future__ import annotations

import asyncio
import ctypes
import queue
import sys
import threading
import time
import weakref
from asyncio import AbstractEventLoop, Task
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswerYet
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any

from rlft.errors import RlftError


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


_ENDING_SECONDS = 1.0  # given to cancelled coroutines to end their processes and close their files
WAITING = "see what its tools, setup or respond wait for; a coroutine must not swallow its cancellation"


class LoopThread:
    """Runs coroutines side by side on a daemon thread of its own.

    With an environment this is in the event loop that it keeps for life, because its clients' connections belong to a
    loop. To be used as a context.
    """

    def __init__(self, environment: object | None = None) -> None:
        self._loop = take_loop(environment)
        self._left, self._over = threading.Event(), threading.Event()
        self._running: set[Task[Any]] = set()
        self.abandoned = False  # true once the environment's code hangs; nothing can be run any more then
        arguments = (self._loop, environment, self._left, self._over)
        self._thread = threading.Thread(target=_run, args=arguments, name="rlft-environment", daemon=True)
        self._thread.start()

    def __enter__(self) -> LoopThread:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.abandoned:  # else its loop may be closed already
            self._over.set()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(2 * _ENDING_SECONDS)

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Begin to run a coroutine, and return the future of its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def start_all(self, coroutines: Sequence[Coroutine[Any, Any, Any]], tell: Callable[[int, Task[Any]], None]) -> None:
        """Begin to run all coroutines; as each ends, `tell(place, task)` is called in the background thread.

        One message starts all of them, since waking the other thread costs more than a short coroutine.
        """

        def begin() -> None:
            for place, coroutine in enumerate(coroutines):
                task = self._loop.create_task(coroutine)
                self._running.add(task)  # the loop holds tasks weakly, so one could be collected while it runs
                task.add_done_callback(self._running.discard)
                task.add_done_callback(partial(tell, place))

        self._loop.call_soon_threadsafe(begin)

    def cancel_all(self) -> None:
        """Cancel all coroutines of `start_all` that still run; `tell` is called for each of them."""

        def cancel() -> None:
            for task in list(self._running):
                task.cancel()

        self._loop.call_soon_threadsafe(cancel)

    def answers(self, seconds: float) -> bool:
        """Return whether the event loop runs something within so many seconds: it does if no code blocks it."""
        turned = threading.Event()
        self._loop.call_soon_threadsafe(turned.set)
        return turned.wait(seconds)

    def current(self) -> Task[Any] | None:
        """Return the task whose code runs at this moment; `None` while the loop waits."""
        return asyncio.current_task(self._loop)

    def check(self, seconds: float, where: str) -> None:
        """Raise RlftError if the event loop does not run anything for so many seconds, and leave the thread behind.

        Code that neither returns nor awaits holds up everything. `where` names the environment.
        """
        if not self.answers(seconds):
            self.abandon()
            raise RlftError(
                f"its code has neither returned nor awaited for {seconds:g} s, and holds up all rollouts",
                where=where,
                fix="write blocking code as plain methods (they get threads of their own), or await; "
                "harness.tool_timeout_seconds is the limit",
            )

    def wait(self, future: Future[Any], seconds: float, where: str, longest: float) -> Any:
        """Return the result of a started coroutine. Every `seconds` without one the loop is checked.

        Raises what the coroutine raises, and RlftError as `check` does or after `longest` seconds.
        """
        until = time.perf_counter() + longest
        while True:
            try:
                return future.result(seconds)
            except NoAnswerYet:
                if future.done():  # the result came just now, or the coroutine itself raised a TimeoutError
                    return future.result()
                self.check(seconds, where)
                if time.perf_counter() > until:
                    self.abandon()
                    raise RlftError(f"no answer within {longest:g} s", where=where, fix=WAITING) from None

    def abandon(self) -> None:
        """Leave the thread behind, and make it end as soon as it runs Python code again."""
        self.abandoned = True
        self._left.set()
        self._over.set()
        self._loop.call_soon_threadsafe(self._loop.stop)
        ask_to_end(self._thread)


def _run(
    loop: asyncio.AbstractEventLoop, environment: object | None, left: threading.Event, over: threading.Event
) -> None:
    asyncio.set_event_loop(loop)
    try:
        # Code of an environment may stop the loop, or raise what asyncio lets pass; others wait for results of theirs.
        while not over.is_set():
            with suppress(SystemExit, KeyboardInterrupt):
                loop.run_forever()
        if unfinished := asyncio.all_tasks(loop):
            for task in unfinished:
                task.cancel()
            waited = asyncio.wait(unfinished, timeout=_ENDING_SECONDS)  # so that processes end and files close
            if loop.run_until_complete(waited)[1]:
                left.set()  # what ignores its cancellation must not go on in the next round, so the loop is given up
    except (SystemExit, RuntimeError):  # `ask_to_end` raises one in a thread that was left behind,
        pass  # and a loop that was stopped twice, when it was left behind, the other
    finally:
        give_loop_back(None if left.is_set() else environment, loop)


Job = Callable[[], Coroutine[Any, Any, Any]]
MAX_LATE_IN_A_ROW = 8
"""After so many jobs in a row that ran into their time limit, more of them are pointless."""
_ANSWER_SECONDS = 0.25  # how long an event loop that is not blocked may take to answer


class Late(TimeoutError):
    """The outcome of a job that took longer than its limit; its text says so."""


@dataclass(slots=True, eq=False)
class _Running:
    """A job that was handed to the thread. `task` and `began` are set before its first line, `over` after its last."""

    place: int
    task: Task[Any] | None = None
    began: float | None = None
    over: bool = False  # its future learns this only when the loop has run all that was ready before

    async def run(self, job: Job, thread: LoopThread) -> Any:
        if thread.abandoned:  # what was to begin in the same turn of its loop must not block it once more
            return None
        self.task, self.began = asyncio.current_task(), time.perf_counter()
        try:
            return await job()
        finally:
            self.over = True

    def is_late(self, seconds: float | None) -> bool:
        if seconds is None or self.began is None or self.over:
            return False
        return time.perf_counter() - self.began > seconds


def run_bounded(
    jobs: Sequence[Job], owner: object | None, *, at_once: int = 1, seconds: float | None = None
) -> Iterator[tuple[int, Any]]:
    """Run all jobs, `at_once` of them side by side, and yield (place, result) as each ends, `Late` if it is too slow.

    They run in the event loop of `owner` (`LoopThread`). The limit of a job, in seconds, begins with its
    first line. A coroutine that is too late is cancelled. Code that neither returns nor awaits is left behind with its
    thread; the others that ran there begin anew on another thread, so a job must be a pure function. Raises what a job
    raises. Code in C that keeps the interpreter's lock cannot be left behind.
    """
    waiting = deque(range(len(jobs)))
    while waiting:  # once for each thread that had to be left behind
        with LoopThread(owner) as thread:
            running: dict[Future[Any], _Running] = {}
            over: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
            while not thread.abandoned and (waiting or running):
                while waiting and len(running) < at_once:
                    each = _Running(waiting.popleft())
                    future = thread.start(each.run(jobs[each.place], thread))
                    running[future] = each
                    future.add_done_callback(over.put)
                with suppress(queue.Empty):
                    future = over.get(timeout=_next_limit(running, seconds))
                    if future in running:  # and not one that was too late
                        yield running.pop(future).place, future.result()
                for future in _late(thread, running, seconds):
                    future.cancel()
                    yield running.pop(future).place, Late(f"no result within {seconds:g} s")
            waiting.extendleft(sorted((each.place for each in running.values()), reverse=True))


def run_one(job: Job, owner: object | None, *, seconds: float) -> Any:
    """Return what a job comes to. Raises what it raises, and `Late` if it takes longer; else as `run_bounded`."""
    [(_, result)] = run_bounded([job], owner, seconds=seconds)
    if isinstance(result, Late):
        raise result
    return result


def _next_limit(running: dict[Future[Any], _Running], seconds: float | None) -> float | None:
    """Return after how many seconds to look for jobs that are too late; `None` if there is no limit."""
    if seconds is None:
        return None
    now = time.perf_counter()
    soonest = min((each.began for each in running.values() if each.began is not None and not each.over), default=now)
    return max(soonest + seconds - now, 0.005)  # below a job's own clock the loop would spin


def _late(thread: LoopThread, running: dict[Future[Any], _Running], seconds: float | None) -> list[Future[Any]]:
    """Return the jobs that are too late. If one of them blocks the event loop, its thread is left behind."""
    late = [future for future, each in running.items() if each.is_late(seconds)]
    if not late or thread.answers(_ANSWER_SECONDS):
        return late
    blocking = thread.current()
    guilty = next((future for future, each in running.items() if each.task is blocking), None)
    if guilty is not None and guilty not in late:
        return []  # the late ones wait for a job that is still within its own limit
    thread.abandon()
    return late if guilty is None else [guilty]


SECONDS = 1e-4
"""After which a thread that computes in Python lets another one go on; Python's own setting is 5e-3."""


@contextmanager
def shared_evenly() -> Iterator[None]:
    """Have the threads of this process take turns of `SECONDS` while the context is open.

    torch gives the interpreter's lock away in every operation, and asks for it again after that. Beside a thread that
    computes in Python (a reward, say) each of the operations then waits for a whole turn of the other one, on a GPU
    before it is launched: a round of 1.3 s took 12 s, and 4.4 s in shorter turns, which cost the other a third.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
