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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlft.environments.workers.threads import Late, in_thread
from rlft.errors import EnvironmentSetupError

MAX_ENDED_IN_A_ROW = 8
"""After so many worker processes that ended without one result between them, more of them are pointless."""
START_SECONDS = 300.0
"""Seconds that a worker process may take to import and make the environment."""
_DRAIN_SECONDS = 1.0  # for the last messages of a process that has ended, as a program in a session of its own holds on
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from rlft.environments.workers.child import main; "
    "main(*map(int, sys.argv[2:]))"
)
# One arena of malloc takes 64 MiB of address space, which a limit counts; and each process has threads of its own.
_VARIABLES = {"MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": "1"}


class WorkerEnded(Exception):
    """Raised for a call that has ended its process; the text says how that ended."""


@dataclass(frozen=True, slots=True)
class Program:
    """Says what a worker process runs: `handler` (`module:function`) makes its methods from the JSON `payload`."""

    handler: str
    payload: dict[str, Any]
    folder: Path
    memory_mib: int | None = None


class Pool:
    """Runs calls in up to `processes` worker processes, each of which makes one call at a time.

    So it is known which call has ended a process, and those that waited for it go to another one. Calls with the same
    key go to the same process while it is there. To be used in the loop of the pool (`LoopThread(pool)`).
    """

    def __init__(self, program: Program, processes: int | None) -> None:
        self._program, self._processes = program, processes or min(8, cores_here())
        self._workers: list[_Process] = []
        self._place: dict[str, _Process] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.ended_in_a_row, self.last_end = 0, ""
        weakref.finalize(self, _close, self._workers)

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
        while True:
            worker = self._chosen(key)
            worker.load += 1
            try:
                async with worker.turn:
                    await worker.start()
                    if worker.is_over:  # since it was chosen
                        continue
                    content = argument(key is not None and self._place.get(key) is not worker)
                    if key is not None:
                        self._place[key] = worker
                    result = await worker.ask(method, content, seconds, quiet_seconds)
            except WorkerEnded as ended:
                self.ended_in_a_row, self.last_end = self.ended_in_a_row + 1, str(ended)
                raise
            finally:
                worker.load -= 1
            self.ended_in_a_row = 0
            return result

    def forget(self, key: str) -> None:
        """Forget a key for which there are no more calls."""
        self._place.pop(key, None)

    def _settle(self) -> None:
        """Begin anew with the processes if the event loop is another one than before: theirs was left behind."""
        if self._loop is not (loop := asyncio.get_running_loop()):
            _close(self._workers)
            self._workers.clear()
            self._place.clear()
            self._loop = loop

    def _chosen(self, key: str | None) -> _Process:
        """Return the process for a call: the one of its key, an idle one, a new one, or that with the least to do."""
        for worker in self._workers:
            if worker.worn and self._load(worker) == 0:
                worker.kill("was closed")
        self._workers[:] = [each for each in self._workers if not each.is_over]
        kept = self._place.get(key) if key is not None else None
        if kept is not None and kept in self._workers:
            return kept
        free = min((each for each in self._workers if not each.worn), key=self._load, default=None)
        if free is not None and (self._load(free) == 0 or len(self._workers) >= self._processes):
            return free
        self._workers.append(_Process(self._program))
        return self._workers[-1]

    def _load(self, worker: _Process) -> int:
        return worker.load + sum(each is worker for each in self._place.values())


class _Process:
    """A worker process and the connection to it, which has one JSON message a line. `turn` is held during a call.

    Two threads start and read it, and no task of the event loop, as the loop stands still between its uses.
    """

    def __init__(self, program: Program) -> None:
        self.turn, self.load = asyncio.Lock(), 0  # how many calls wait for it, or run in it
        self.worn = False  # whether it has kept so much memory that another one is to take its place
        self.is_over = False  # whether it has ended, or is about to
        self._program, self._loop = program, asyncio.get_running_loop()
        self._said: asyncio.Queue[Any] = asyncio.Queue()  # its messages, and `None` after the last one
        self._pid: int | None = None  # while the process is there
        self._why = ""  # it was ended
        self._count, self._is_ready = 0, False  # calls so far
        self._own, theirs = socket.socketpair()
        threading.Thread(target=self._live, args=(theirs,), name="rlft-worker", daemon=True).start()

    async def start(self) -> None:
        """Wait until the process has made what its program names. Raises EnvironmentSetupError if it cannot."""
        if self._is_ready:
            return
        program = self._program
        try:
            await self._send({"open": program.handler, "payload": program.payload, "memory_mib": program.memory_mib})
            said = await self._next(START_SECONDS)
        except WorkerEnded as ended:
            raise _no_worker(str(ended)) from None
        except TimeoutError:
            self.kill("was too slow")
            raise _no_worker(f"it was not ready after {START_SECONDS:g} s") from None
        if "failed" in said:
            self.kill("was closed")
            raise _no_worker(f"{said.get('kind')}: {said['failed']}")
        self._is_ready = True

    async def ask(self, method: str, argument: Any, seconds: float | None, quiet_seconds: float | None) -> Any:
        """Return what a call returns. Raises as `Pool.call` does, and RuntimeError with what the call raised."""
        self._count += 1
        await self._send({"call": self._count, "method": method, "argument": argument})
        limit, asked = seconds or quiet_seconds, False
        while True:
            try:
                said = await self._next(limit)
            except TimeoutError:
                if seconds is not None:
                    self.kill("was killed, as a call took too long")
                    raise Late(f"no result within {seconds:g} s") from None
                if asked:
                    self.kill(f"was killed, as it had run nothing for {limit:g} s")
                await self._send({"ping": True})
                asked = True
                continue
            asked = False
            if said.get("done") == self._count:  # and no answer to a ping
                self.worn = said["worn"]
                if "error" in said:
                    raise RuntimeError(said["error"])
                return said["result"]

    def kill(self, why: str) -> None:
        """End the process at once, for this reason, also from another thread.

        What it has forked or started ends with it, unless that has made itself a session of its own.
        """
        self._why, self.is_over = self._why or why, True
        if self._pid is not None:
            _kill_group(self._pid)

    async def _next(self, seconds: float | None) -> dict[str, Any]:
        """Return the next message. Raises TimeoutError, and WorkerEnded after the last one."""
        try:
            said = await asyncio.wait_for(self._said.get(), seconds)
        except asyncio.CancelledError:
            self.kill("was closed")  # it would answer this call to the next one
            raise
        if said is None:
            raise WorkerEnded(self._why)
        return said

    async def _send(self, message: dict[str, Any]) -> None:
        packed = json.dumps(message).encode() + b"\n"
        with suppress(OSError):  # the process has ended, which the next message tells
            await in_thread(lambda: self._own.sendall(packed))

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
                self._end(f"could not be started ({error})")
                return
        self._pid = process.pid
        if self.is_over:
            _kill_group(process.pid)
        reading = threading.Thread(target=self._read, name="rlft-worker-messages", daemon=True)
        reading.start()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        _kill_group(process.pid)  # before it is reaped: its number cannot be another process's yet
        self._pid = None
        how = _how_it_ended(process.wait())
        reading.join(_DRAIN_SECONDS)
        self._end(how)

    def _end(self, how: str) -> None:
        self._why, self.is_over = self._why or how, True
        with suppress(OSError):
            self._own.shutdown(socket.SHUT_RDWR)
        self._tell(None)

    def _read(self) -> None:
        """Pass on the messages, and end a process that goes on without a connection."""
        try:
            with suppress(OSError), self._own.makefile("rb") as lines:
                for line in lines:
                    message = json.loads(line)
                    if "log" in message:
                        logging.getLogger(message["logger"]).log(message["level"], "%s", message["log"])
                    else:
                        self._tell(message)
        finally:
            self.kill("")

    def _tell(self, message: dict[str, Any] | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._said.put_nowait, message)


def cores_here() -> int:
    """Return the cores that this process may run on, at most as many as its container pays for; at least 1."""
    from joblib import cpu_count  # here, as it takes 0.2 s

    return cpu_count()


def _no_worker(why: str) -> EnvironmentSetupError:
    return EnvironmentSetupError(
        f"the environment cannot be made in a worker process: {why}",
        where="environment",
        fix="mend it, or set isolation to thread, so that it runs in the process of the run",
    )


def _close(workers: list[_Process]) -> None:
    for worker in workers:
        worker.kill("was closed")


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"was ended by {name}{', as the system does when memory runs out' * (-code == signal.SIGKILL)}"
