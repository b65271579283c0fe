"""A few worker processes with the same code: chooses one for each call, and starts new ones for those that end."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from rlft.environments.workers.bounded import Late
from rlft.environments.workers.machine import cores_here
from rlft.environments.workers.process import Call, Program, WorkerEnded, WorkerFailed, WorkerProcess
from rlft.errors import EnvironmentSetupError

MAX_ENDED_IN_A_ROW = 8
"""After so many worker processes that ended without one result between them, more of them are pointless."""
START_SECONDS = 300.0
"""Seconds that a worker process may take to import and make the environment."""
_LOST_SECONDS = 2.0  # that a call may take to begin once its process answers
_CANCEL_SECONDS = 0.5  # that a call which awaits something may take to end when it is cancelled


class Pool:
    """Runs calls in up to `processes` worker processes.

    Calls with the same key go to the same process. When a process ends, those that it was not about begin anew in
    another one; if it is not known which of several was to blame, each is made again with nothing beside it. To be
    used in the loop of the pool (`LoopThread(pool)`).
    """

    def __init__(self, program: Program, processes: int | None) -> None:
        self._program, self._processes = program, processes or min(8, cores_here())
        self._workers: list[WorkerProcess] = []
        self._alone: list[WorkerProcess] = []  # at most one, for calls that may have ended a process
        self._one_at_a_time, self._loop = asyncio.Lock(), None
        self._place: dict[str, WorkerProcess] = {}
        self._suspects: set[str] = set()
        self.ended_in_a_row, self.last_end = 0, ""
        weakref.finalize(self, _close, self._workers, self._alone)

    async def call(
        self,
        method: str,
        argument: Callable[[bool], Any],
        *,
        key: str | None = None,
        seconds: float | None = None,
        quiet_seconds: float | None = None,
    ) -> Any:
        """Return what a method of the worker returns.

        `argument(anew)` makes its argument; `anew` says that the process has not been called with this key before.
        `seconds` is the call's time limit. `quiet_seconds` is how long the process may run nothing at all. Raises
        WorkerEnded where this call has ended its process, `Late` where it took too long, and EnvironmentSetupError if
        no process can be started.
        """
        self._settle()
        suspect = key in self._suspects
        for _ in range(MAX_ENDED_IN_A_ROW):
            async with self._one_at_a_time if suspect else nullcontext():
                worker = self._chosen(key, alone=suspect)
                worker.load += 1
                try:
                    await self._ready(worker)
                    call = worker.start(method, argument(key is not None and self._place.get(key) is not worker))
                    if key is not None:
                        self._place[key] = worker
                    result = await _result(worker, call, seconds, quiet_seconds)
                except WorkerEnded as ended:
                    self.ended_in_a_row, self.last_end = self.ended_in_a_row + ended.guilty, str(ended)
                    if ended.guilty:
                        raise
                    suspect = suspect or ended.suspect
                    if suspect and key is not None:
                        self._suspects.add(key)
                else:
                    self.ended_in_a_row = 0
                    return result
                finally:
                    worker.load -= 1
        raise WorkerEnded("ended again and again before it answered", guilty=True, suspect=False)

    def _settle(self) -> None:
        """Begin anew with the processes if the event loop is another one than before: theirs was left behind."""
        if self._loop is not (loop := asyncio.get_running_loop()):
            _close(self._workers, self._alone)
            self._workers.clear()
            self._alone.clear()
            self._place.clear()
            self._loop, self._one_at_a_time = loop, asyncio.Lock()

    def forget(self, key: str) -> None:
        """Forget a key for which there are no more calls."""
        self._place.pop(key, None)
        self._suspects.discard(key)

    def _chosen(self, key: str | None, *, alone: bool) -> WorkerProcess:
        """Return the process for a call: the one of its key, an idle one, a new one, or that with the least to do."""
        group, most = (self._alone, 1) if alone else (self._workers, self._processes)
        self._end_worn(group)
        kept = self._place.get(key) if key is not None else None
        if kept is not None and kept.alive and kept in group:
            return kept
        free = min((each for each in group if not each.worn), key=self._load, default=None)
        if free is not None and (self._load(free) == 0 or len(group) >= most):
            return free
        group.append(WorkerProcess(self._program, asyncio.get_running_loop()))
        return group[-1]

    def _end_worn(self, group: list[WorkerProcess]) -> None:
        """Close the processes that have kept too much memory and have nothing more to do; forget those that ended."""
        for worker in [each for each in group if each.worn and self._load(each) == 0]:
            worker.close()
            group.remove(worker)
        group[:] = [each for each in group if each.alive]

    def _load(self, worker: WorkerProcess) -> int:
        return worker.load + sum(each is worker for each in self._place.values())

    async def _ready(self, worker: WorkerProcess) -> None:
        try:
            await asyncio.wait_for(asyncio.shield(worker.ready), START_SECONDS)
        except TimeoutError:
            worker.kill("was too slow")
            raise self._no_worker(f"it was not ready after {START_SECONDS:g} s") from None
        except WorkerFailed as failed:
            raise self._no_worker(str(failed)) from None

    def _no_worker(self, why: str) -> EnvironmentSetupError:
        return EnvironmentSetupError(
            f"the environment cannot be made in a worker process: {why}",
            where="environment",
            fix="mend it, or set isolation to thread, so that it runs in the process of the run",
        )


async def _result(worker: WorkerProcess, call: Call, seconds: float | None, quiet_seconds: float | None) -> Any:
    limit = seconds if seconds is not None else quiet_seconds
    try:
        if seconds is not None:
            await _until_begun(worker, call, seconds)
        while not (await asyncio.wait({call.future}, timeout=limit))[0]:
            if seconds is not None:
                await _end_late(worker, call, seconds)
            elif not await worker.answers(limit or 1.0):
                worker.kill(f"was killed, as it had run nothing for {limit:g} s")
        return call.future.result()
    except asyncio.CancelledError:
        worker.cancel(call)
        raise


async def _until_begun(worker: WorkerProcess, call: Call, seconds: float) -> None:
    """Wait until a call has begun or its process has ended; end a process that does not begin it.

    Each of the other calls there may hold it up for its own time limit.
    """
    begun = asyncio.ensure_future(call.begun.wait())

    async def within(limit: float) -> bool:
        return bool((await asyncio.wait({begun, call.future}, timeout=limit, return_when="FIRST_COMPLETED"))[0])

    try:
        for _ in range(len(worker.calls) + 1):
            if await within(seconds + _LOST_SECONDS):
                return
            if await worker.answers(_LOST_SECONDS) and not await within(_LOST_SECONDS):
                break  # it takes messages in their order, so this one was lost
        worker.kill("was killed, as it did not begin a call")
    finally:
        begun.cancel()


async def _end_late(worker: WorkerProcess, call: Call, seconds: float) -> None:
    """Cancel a call that takes too long; end its process if it goes on. Raises Late."""
    more = worker.growth(call)
    worker.cancel(call)
    await asyncio.wait({call.future}, timeout=_CANCEL_SECONDS)
    if not call.future.done():
        worker.kill("was killed, as a call took too long", call)
        await asyncio.wait({call.future}, timeout=10 * _CANCEL_SECONDS)
    raise Late(f"no result within {seconds:g} s{more}")


def _close(*groups: list[WorkerProcess]) -> None:
    for worker in [each for group in groups for each in group]:
        worker.close()
