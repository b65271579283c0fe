"""Runs many jobs on an event loop's thread, so many at once, each within a time limit."""

from __future__ import annotations

import asyncio
import queue
import time
from asyncio import Task
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rlft.environments.workers.machine import grown, memory_in_use
from rlft.environments.workers.threads import LoopThread

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

    They run in the event loop of `owner` (`threads`). The limit of a job, in seconds, begins with its
    first line. A coroutine that is too late is cancelled. Code that neither returns nor awaits is left behind with its
    thread; the others that ran there begin anew on another thread, so a job must be a pure function. Raises what a job
    raises. Code in C that keeps the interpreter's lock cannot be left behind.
    """
    waiting, memory = deque(range(len(jobs))), memory_in_use()[1]
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
                    more = grown(memory, memory_in_use()[1])
                    yield running.pop(future).place, Late(f"no result within {seconds:g} s{more}")
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
