"""One worker process as its parent sees it: the calls that it makes, and what became of them when it ended."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from rlft.environments.workers.child import BROKEN, LIMIT, pack, read
from rlft.environments.workers.machine import grown, killed_for_memory

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from rlft.environments.workers.child import main; "
    "main(*map(int, sys.argv[2:]))"
)
_DRAIN_SECONDS = 1.0  # for the last messages of a process that has ended
# One arena of malloc takes 64 MiB of address space, which a limit counts; and each process has threads of its own.
_VARIABLES = {"MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": "1"}


class WorkerEnded(Exception):
    """Raised for a call whose process has ended; the text says how it ended.

    `guilty` says that this call was the reason, `suspect` that it or another one that ran was.
    """

    def __init__(self, how: str, *, guilty: bool, suspect: bool) -> None:
        super().__init__(how)
        self.guilty, self.suspect = guilty, suspect


class WorkerFailed(Exception):
    """Raised when a worker process cannot be started; the text says why."""


@dataclass(frozen=True, slots=True)
class Program:
    """Says what a worker process runs: `handler` (`module:function`) makes its methods from the JSON `payload`."""

    handler: str
    payload: dict[str, Any]
    folder: Path
    memory_mib: int | None = None


@dataclass(slots=True, eq=False)
class Call:
    """A call that a worker process makes. `begun` is set when its first line runs there."""

    number: int
    future: asyncio.Future[Any]
    begun: asyncio.Event = field(default_factory=asyncio.Event)


class WorkerProcess:
    """A worker process. All methods are to be called in the event loop `loop`."""

    def __init__(self, program: Program, loop: asyncio.AbstractEventLoop) -> None:
        self.calls: dict[int, Call] = {}
        self.alive, self.worn = True, False  # a worn worker has kept so much memory that it should be replaced
        self.load = 0  # calls that it was chosen for and that are not over; its pool counts them
        self.ready: asyncio.Future[None] = loop.create_future()
        self._loop, self._count, self._pings = loop, 0, dict[int, asyncio.Event]()
        self._guilty, self._why = None, ""  # the call that ends the process, where that is known, and how
        self._memory: dict[int, int] = {}  # resident bytes when a call began
        self._out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        opening = {"open": program.handler, "payload": program.payload, "memory_mib": program.memory_mib}
        self._out.put(pack(opening))
        threading.Thread(target=self._live, args=(program.folder,), name="rlft-worker", daemon=True).start()

    def start(self, method: str, argument: Any) -> Call:
        """Begin a call. Raises TypeError or ValueError for an argument that is not JSON."""
        self._count += 1
        call = Call(self._count, self._loop.create_future())
        packed = pack({"call": call.number, "method": method, "argument": argument})
        self.calls[call.number] = call
        self._out.put(packed)
        return call

    def cancel(self, call: Call) -> None:
        """Ask the process to give up a call, which it can do only where that awaits something."""
        self._out.put(pack({"cancel": call.number}))

    async def answers(self, seconds: float) -> bool:
        """Return whether the process runs anything within so many seconds: it does if no code blocks it."""
        self._count += 1
        pong = self._pings[self._count] = asyncio.Event()
        self._out.put(pack({"ping": self._count}))
        try:
            await asyncio.wait_for(pong.wait(), seconds)
        except TimeoutError:
            return not self.alive  # one that has ended tells so itself
        finally:
            self._pings.pop(self._count, None)
        return True

    def kill(self, why: str, call: Call | None = None) -> None:
        """End the process at once, for this reason, and because of this call if that is known.

        What it has forked or started ends with it, unless that has made itself a session of its own.
        """
        self._guilty, self._why = call and call.number, why
        if self._process is not None and self._process.returncode is None:
            _kill_group(self._process.pid)

    def close(self) -> None:
        """End the process."""
        self._out.put(None)
        self.kill("was closed")

    def growth(self, call: Call) -> str:
        """Return by how much the process has grown since a call began, as `machine.grown` says it."""
        return grown(self._memory.get(call.number, 0), self._resident())

    def _resident(self) -> int:
        try:
            return psutil.Process(self._process.pid).memory_info().rss if self._process else 0
        except psutil.Error:
            return 0

    def _live(self, folder: Path) -> None:
        """Start the process, pass its messages on, and tell when it has ended.

        This thread lives as long as the process: the kernel ends a process of `PR_SET_PDEATHSIG` with the thread that
        started it.
        """
        child_in, own_out = os.pipe()
        own_in, child_out = os.pipe()
        arguments = [json.dumps(sys.path), str(child_in), str(child_out), str(os.getpid())]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what the environment prints must not get among a command's results
                cwd=folder,
                env={**_VARIABLES, **os.environ},
                pass_fds=(child_in, child_out),
                start_new_session=True,
            )
        except OSError as error:
            os.close(own_in)
            self._tell(self._end, f"could not be started ({error})")
            return
        finally:
            os.close(child_in)
            os.close(child_out)
        how = "was lost, as the thread that watches it has failed"
        try:
            how = self._watch(self._process, own_in, own_out)
        finally:
            self._out.put(None)
            self._tell(self._end, how)  # whatever happened: those who wait for its calls must not wait for ever

    def _watch(self, running: subprocess.Popen[bytes], own_in: int, own_out: int) -> str:
        """Pass messages on until a process has ended; returns how it did."""
        out_of_memory = killed_for_memory()
        reading = threading.Thread(target=self._read, args=(own_in,), name="rlft-worker-read", daemon=True)
        reading.start()
        threading.Thread(target=self._write, args=(own_out,), name="rlft-worker-write", daemon=True).start()
        os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
        _kill_group(running.pid)  # before it is reaped: its number cannot be another process's yet
        _, status, usage = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        reading.join(_DRAIN_SECONDS)  # not longer: a program in a session of its own may hold the pipe open
        now = killed_for_memory()
        by_system = None if now is None or out_of_memory is None else now > out_of_memory
        return _how_it_ended(running.returncode, usage.ru_maxrss // 1024, by_system)

    def _write(self, fd: int) -> None:
        with suppress(OSError), os.fdopen(fd, "wb", buffering=0) as file:
            while (packed := self._out.get()) is not None:
                view = memoryview(packed)
                while view:
                    view = view[file.write(view) :]

    def _read(self, fd: int) -> None:
        try:
            with suppress(OSError), os.fdopen(fd, "rb") as file:
                while (message := read(file, LIMIT)) is not None:
                    self._tell(self._take, message)
        except (ValueError, RecursionError, MemoryError) as error:
            self._tell(self.kill, f"was killed, as it sent what cannot be read ({error})")

    def _tell(self, function: Any, *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(function, *arguments)

    def _take(self, message: dict[str, Any]) -> None:
        try:
            self._read_message(message)
        except (KeyError, TypeError, asyncio.InvalidStateError):  # written by the environment's code, as it can be
            self.kill("was killed, as it sent what no worker says")

    def _read_message(self, message: dict[str, Any]) -> None:
        if "ready" in message:
            self.ready.set_result(None)
        elif "failed" in message:
            self._why = f"{message['kind']}: {message['failed']}"
        elif "begun" in message:
            if call := self.calls.get(message["begun"]):
                self._memory[call.number] = self._resident()
                call.begun.set()
        elif "done" in message:
            self._done(message)
        elif "pong" in message:
            if pong := self._pings.get(message["pong"]):
                pong.set()
        else:
            logging.getLogger(message["logger"]).log(message["level"], "%s", message["log"])

    def _done(self, message: dict[str, Any]) -> None:
        call = self.calls.pop(message["done"], None)
        self._memory.pop(message["done"], None)
        self.worn = self.worn or message["worn"]
        if call is None or call.future.done():
            return
        if "error" in message:
            call.future.set_exception(RuntimeError(message["error"]))
        elif "cancelled" in message:
            call.future.cancel()
        else:
            call.future.set_result(message["result"])

    def _end(self, how: str) -> None:
        """Give every call that waits the reason why it has no result."""
        self.alive = False
        how = self._why or how
        if not self.ready.done() and not self._why:
            how = f"it {how}"
        running = [call.number for call in self.calls.values() if call.begun.is_set()]
        if not running and self._process is not None and self._process.returncode == BROKEN:
            running = list(self.calls)  # one that has not begun could not be taken
        guilty = self._guilty if self._guilty is not None else running[0] if len(running) == 1 else None
        if not self.ready.done():
            self.ready.set_exception(WorkerFailed(how))
            self.ready.exception()  # so that nobody is warned if nobody waits for it
        for number, call in self.calls.items():
            suspect = guilty is None and number in running
            if not call.future.done():
                call.future.set_exception(WorkerEnded(how, guilty=number == guilty, suspect=suspect))
                call.future.exception()
        self.calls.clear()
        for pong in self._pings.values():
            pong.set()


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _how_it_ended(code: int, peak: int, by_system: bool | None) -> str:
    """Return how a process ended; `by_system` says whether the kernel has killed any process for memory meanwhile."""
    if code == BROKEN:
        return f"ended, as it could not take a call or answer one, after using up to {peak} MiB"
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    if -code == signal.SIGKILL:
        by_whom = {
            True: "by the system, as memory had run out,",
            False: "by SIGKILL, which was not the kernel's for lack of memory,",
            None: "(SIGKILL, as the system does when memory runs out)",
        }
        return f"was killed {by_whom[by_system]} after using up to {peak} MiB"
    return f"was ended by {name} after using up to {peak} MiB"
