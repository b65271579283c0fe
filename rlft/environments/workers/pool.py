"""A few worker processes with the same code: chooses one for each call, and starts new ones for those that end."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlft.environments.workers.child import BROKEN, LIMIT
from rlft.environments.workers.machine import cores_here
from rlft.environments.workers.threads import Late
from rlft.errors import EnvironmentSetupError

MAX_ENDED_IN_A_ROW = 8
"""After so many worker processes that ended without one result between them, more of them are pointless."""
START_SECONDS = 300.0
"""Seconds that a worker process may take to import and make the environment."""
_LOST_SECONDS = 2.0  # that a call may take to begin once its process is free for it
_CANCEL_SECONDS = 0.5  # that a call which awaits something may take to end when it is cancelled
_DRAIN_SECONDS = 1.0  # for the last messages of a process that has ended, as a program in a session of its own holds on
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from rlft.environments.workers.child import main; "
    "main(*map(int, sys.argv[2:]))"
)
# One arena of malloc takes 64 MiB of address space, which a limit counts; and each process has threads of its own.
_VARIABLES = {"MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": "1"}


class WorkerEnded(Exception):
    """Raised for a call whose process has ended; the text says how it ended.

    `guilty` says that this call was the reason, `suspect` that it or another one that ran was.
    """

    def __init__(self, how: str, *, guilty: bool, suspect: bool) -> None:
        super().__init__(how)
        self.guilty, self.suspect = guilty, suspect


@dataclass(frozen=True, slots=True)
class Program:
    """Says what a worker process runs: `handler` (`module:function`) makes its methods from the JSON `payload`."""

    handler: str
    payload: dict[str, Any]
    folder: Path
    memory_mib: int | None = None


class Pool:
    """Runs calls in up to `processes` worker processes.

    Calls with the same key go to the same process. When a process ends, those that it was not about begin anew in
    another one; if it is not known which of several was to blame, each is made again with nothing beside it. To be
    used in the loop of the pool (`LoopThread(pool)`).
    """

    def __init__(self, program: Program, processes: int | None) -> None:
        self._program, self._processes = program, processes or min(8, cores_here())
        self._workers: list[_Process] = []
        self._alone: list[_Process] = []  # at most one, for calls that may have ended a process
        self._one_at_a_time, self._loop = asyncio.Lock(), None
        self._place: dict[str, _Process] = {}
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
                    await _ready(worker)
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
        self.ended_in_a_row += 1
        raise WorkerEnded(f"ended again and again before it answered; it {self.last_end}", guilty=True, suspect=False)

    def forget(self, key: str) -> None:
        """Forget a key for which there are no more calls."""
        self._place.pop(key, None)
        self._suspects.discard(key)

    def _settle(self) -> None:
        """Begin anew with the processes if the event loop is another one than before: theirs was left behind."""
        if self._loop is not (loop := asyncio.get_running_loop()):
            _close(self._workers, self._alone)
            self._workers.clear()
            self._alone.clear()
            self._place.clear()
            self._loop, self._one_at_a_time = loop, asyncio.Lock()

    def _chosen(self, key: str | None, *, alone: bool) -> _Process:
        """Return the process for a call: the one of its key, an idle one, a new one, or that with the least to do."""
        group, most = (self._alone, 1) if alone else (self._workers, self._processes)
        for worker in group:
            if worker.worn and self._load(worker) == 0:
                worker.close()
        group[:] = [each for each in group if each.alive and not each.closed]
        kept = self._place.get(key) if key is not None else None
        if kept is not None and kept in group:
            return kept
        free = min((each for each in group if not each.worn), key=self._load, default=None)
        if free is not None and (self._load(free) == 0 or len(group) >= most):
            return free
        group.append(_Process(self._program, asyncio.get_running_loop()))
        return group[-1]

    def _load(self, worker: _Process) -> int:
        return worker.load + sum(each is worker for each in self._place.values())


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that a worker process makes. `begun` is done when its first line runs there."""

    number: int
    future: asyncio.Future[Any]
    begun: asyncio.Future[None]


class _Process(asyncio.Protocol):
    """A worker process. All methods but `_live` are to be called in the event loop `loop`."""

    def __init__(self, program: Program, loop: asyncio.AbstractEventLoop) -> None:
        self.calls: dict[int, _Call] = {}
        self.alive, self.closed = True, False
        self.worn = False  # it has kept so much memory that it should be replaced
        self.load = 0  # calls that it was chosen for and that are not over; its pool counts them
        self.ready: asyncio.Future[None] = loop.create_future()
        self._program, self._loop, self._count = program, loop, 0
        self._guilty: int | None = None  # the call that ends the process, where that is known
        self._why = ""  # and how it ends
        self._pid: int | None = None  # while the process is there
        self._code: int | None = None  # its exit code after that
        self._received = bytearray()
        self._transport: Any = None
        own, theirs = socket.socketpair()
        threading.Thread(target=self._live, args=(theirs,), name="rlft-worker", daemon=True).start()
        self._opening = loop.create_task(loop.create_connection(lambda: self, sock=own))

    def start(self, method: str, argument: Any) -> _Call:
        """Begin a call. Raises TypeError or ValueError for an argument that is not JSON, and WorkerEnded."""
        if not self.alive:  # it has ended since it was chosen, and its end is told no more
            raise WorkerEnded(self._why, guilty=False, suspect=False)
        self._count += 1
        call = _Call(self._count, self._loop.create_future(), self._loop.create_future())
        self._send({"call": call.number, "method": method, "argument": argument})
        self.calls[call.number] = call
        return call

    def cancel(self, call: _Call) -> None:
        """Ask the process to give up a call, which it can do only where that awaits something."""
        self._send({"cancel": call.number})

    async def answers(self, seconds: float) -> bool:
        """Return whether the process runs anything within so many seconds: it does if no code blocks it."""
        ping = self.start("ping", None)
        return bool((await asyncio.wait({ping.future}, timeout=seconds))[0])  # one that has ended tells so itself

    def kill(self, why: str, call: _Call | None = None) -> None:
        """End the process at once, for this reason, and because of this call if that is known.

        What it has forked or started ends with it, unless that has made itself a session of its own.
        """
        self._guilty, self._why, self.closed = call and call.number, why, True
        if self._pid is not None:
            _kill_group(self._pid)

    def close(self) -> None:
        """End the process, also from another thread."""
        self.kill("was closed")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with the message that says what to run."""
        self._transport = transport
        program = self._program
        self._send({"open": program.handler, "payload": program.payload, "memory_mib": program.memory_mib})

    def data_received(self, data: bytes) -> None:
        """Read the lines that are whole, each a message."""
        self._received += data
        if len(self._received) > LIMIT:
            self.kill(f"was killed, as it sent more than {LIMIT >> 20} MiB")
        if b"\n" in data:
            *lines, self._received = self._received.split(b"\n")
            for line in lines:
                try:
                    self._read(json.loads(line))
                except (ValueError, LookupError, TypeError, AttributeError, RecursionError, asyncio.InvalidStateError):
                    self.kill("was killed, as it sent what no worker says")  # the environment's code can write there

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the calls how the process has ended; one that goes on without a connection is ended."""
        del exc
        self._transport = None
        if self._code is not None:
            self._end()
        elif self._pid is not None:
            _kill_group(self._pid)

    def _send(self, message: dict[str, Any]) -> None:
        packed = json.dumps(message).encode() + b"\n"
        if self._transport is not None:
            self._transport.write(packed)

    def _read(self, message: dict[str, Any]) -> None:
        if "ready" in message:
            self.ready.set_result(None)
        elif "failed" in message:
            self._why = f"{message['kind']}: {message['failed']}"
        elif "begun" in message:
            if call := self.calls.get(message["begun"]):
                call.begun.set_result(None)
        elif "done" in message:
            self._done(message)
        else:
            logging.getLogger(message["logger"]).log(message["level"], "%s", message["log"])

    def _done(self, message: dict[str, Any]) -> None:
        call = self.calls.pop(message["done"], None)
        self.worn = self.worn or message["worn"]
        if call is None or call.future.done():
            return
        if "error" in message:
            call.future.set_exception(RuntimeError(message["error"]))
        elif "cancelled" in message:
            call.future.cancel()
        else:
            call.future.set_result(message["result"])

    def _live(self, theirs: socket.socket) -> None:
        """Start the process, and tell when it has ended.

        This thread lives as long as the process: the kernel ends a process of `PR_SET_PDEATHSIG` with the thread that
        started it.
        """
        with theirs:
            try:
                process = subprocess.Popen(
                    [sys.executable, "-c", _START, json.dumps(sys.path), str(theirs.fileno()), str(os.getpid())],
                    stdin=subprocess.DEVNULL,
                    stdout=2,  # what the environment prints must not get among a command's results
                    cwd=self._program.folder,
                    env={**_VARIABLES, **os.environ},
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except OSError as error:
                self._tell(self._end, f"could not be started ({error})")
                return
        self._pid = process.pid
        if self.closed:
            _kill_group(process.pid)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        _kill_group(process.pid)  # before it is reaped: its number cannot be another process's yet
        self._pid = None
        self._tell(self._exited, process.wait())

    def _tell(self, function: Any, *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(function, *arguments)

    def _exited(self, code: int) -> None:
        self._code = code
        if self._transport is None:
            self._end()
        else:
            self._loop.call_later(_DRAIN_SECONDS, self._end)

    def _end(self, how: str = "") -> None:
        """Give every call that waits the reason why it has no result."""
        if not self.alive:
            return
        self.alive = False
        if self._transport is not None:
            self._transport.close()
        self._why = how = self._why or how or _how_it_ended(self._code or 0)
        running = [call.number for call in self.calls.values() if call.begun.done()]
        if not running and self._code == BROKEN:
            running = list(self.calls)  # one that has not begun could not be taken
        guilty = self._guilty if self._guilty is not None else running[0] if len(running) == 1 else None
        if not self.ready.done():
            self.ready.set_exception(_no_worker(how))
            self.ready.exception()  # so that nobody is warned if nobody waits for it
        for number, call in self.calls.items():
            suspect = guilty is None and number in running
            if not call.future.done():
                call.future.set_exception(WorkerEnded(how, guilty=number == guilty, suspect=suspect))
                call.future.exception()
        self.calls.clear()


async def _ready(worker: _Process) -> None:
    try:
        await asyncio.wait_for(asyncio.shield(worker.ready), START_SECONDS)
    except TimeoutError:
        worker.kill("was too slow")
        raise _no_worker(f"it was not ready after {START_SECONDS:g} s") from None


async def _result(worker: _Process, call: _Call, seconds: float | None, quiet_seconds: float | None) -> Any:
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


async def _until_begun(worker: _Process, call: _Call, seconds: float) -> None:
    """Wait until a call has begun or its process has ended; end a process that does not begin it.

    Each of the other calls there may hold it up for its own time limit.
    """
    longest = (len(worker.calls) + 1) * (seconds + _LOST_SECONDS)
    if not (await asyncio.wait({call.begun, call.future}, timeout=longest, return_when="FIRST_COMPLETED"))[0]:
        worker.kill("was killed, as it did not begin a call")


async def _end_late(worker: _Process, call: _Call, seconds: float) -> None:
    """Cancel a call that takes too long; end its process if it goes on. Raises Late."""
    worker.cancel(call)
    await asyncio.wait({call.future}, timeout=_CANCEL_SECONDS)
    if not call.future.done():
        worker.kill("was killed, as a call took too long", call)
        await asyncio.wait({call.future}, timeout=10 * _CANCEL_SECONDS)
    raise Late(f"no result within {seconds:g} s")


def _no_worker(why: str) -> EnvironmentSetupError:
    return EnvironmentSetupError(
        f"the environment cannot be made in a worker process: {why}",
        where="environment",
        fix="mend it, or set isolation to thread, so that it runs in the process of the run",
    )


def _close(*groups: list[_Process]) -> None:
    for worker in [each for group in groups for each in group]:
        worker.close()


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"was ended by {name}{', as the system does when memory runs out' * (-code == signal.SIGKILL)}"
