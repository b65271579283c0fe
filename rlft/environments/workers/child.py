"""What runs in a worker process: it takes calls from its parent, runs them side by side, and sends the results back.

The messages between them are JSON, each behind its length. Nothing is ever unpickled.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import json
import logging
import os
import resource
import select
import signal
import struct
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, BinaryIO

from rlft.environments.workers.machine import MIB, memory_in_use

LIMIT = 256 << 20
"""Most bytes of a message from a worker: the run's own process must hold it."""
BROKEN = 70
"""The exit code of a worker that can neither take calls nor answer them any more."""
_LENGTH = struct.Struct(">Q")


def pack(message: dict[str, Any]) -> bytes:
    """Return a message as bytes. Raises TypeError or ValueError for what is not JSON."""
    body = json.dumps(message).encode()  # in ASCII: a model's text need not be valid Unicode
    return _LENGTH.pack(len(body)) + body


def read(file: BinaryIO, limit: float = float("inf")) -> dict[str, Any] | None:
    """Return the next message; `None` where there are no more, or the last one was cut off.

    Raises ValueError for one of more bytes than `limit`, before it is read, and for what is not JSON.
    """
    head = file.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > limit:
        raise ValueError(f"a message of {length >> 20} MiB is too long")
    body = file.read(length)
    return json.loads(body) if len(body) == length else None


Methods = dict[str, Callable[[Any], Awaitable[Any]]]
_SLACK = 256 * MIB  # of address space, which threads and malloc reserve and do not fill
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


def main(read_fd: int, write_fd: int, parent: int) -> None:
    """Serve the parent until it closes its end. It gives its process id, as it may have ended before this began."""
    for fd in (read_fd, write_fd):
        os.set_inheritable(fd, False)  # programs that the environment starts must not hold them open
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers itself
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)
        with suppress(OSError):  # no more processes are allowed here: then this one alone goes with its parent
            _guard(read_fd)
    child = _Child(os.fdopen(read_fd, "rb"), os.fdopen(write_fd, "wb"))
    asyncio.run(child.serve())


def _guard(read_fd: int) -> None:
    """Leave a process that ends this one, and all programs that it has started, once the parent is gone.

    The kernel would end this process alone. It is no child of this one's: an environment may wait for all of its own.
    """
    group = os.getpid()  # which leads the session that the parent has made for it
    if (between := os.fork()) != 0:
        os.waitpid(between, 0)
        return
    if os.fork() == 0:
        for fd in {int(name) for name in os.listdir("/proc/self/fd")} - {read_fd}:
            with suppress(OSError):
                os.close(fd)
        waiting = select.poll()
        waiting.register(read_fd, 0)  # which tells of nothing but that nobody can write there any more
        waiting.poll()
        os.killpg(group, signal.SIGKILL)
    os._exit(0)


class _Child:
    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        self._reader, self._writer, self._lock = reader, writer, threading.Lock()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._most: float = float("inf")  # bytes of memory after which this process is worn out

    async def serve(self) -> None:
        """Open the handler that the first message names, and run calls until there are no more."""
        opening = read(self._reader)
        if opening is None:
            return
        logging.getLogger("rlft").addHandler(_Logs(self.send))
        logging.getLogger("rlft").setLevel(logging.INFO)
        try:
            module, _, function = opening["open"].partition(":")
            methods: Methods = await getattr(importlib.import_module(module), function)(opening["payload"])
            if opening["memory_mib"]:
                self._limit(opening["memory_mib"] * MIB)
        except BaseException as error:
            self.send({"failed": str(error), "kind": type(error).__name__})
            return
        self.send({"ready": True})
        over, loop = asyncio.Event(), asyncio.get_running_loop()
        threading.Thread(target=self._listen, args=(loop, methods, over), name="rlft-calls", daemon=True).start()
        await over.wait()
        os._exit(0)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message, from any thread. Where that cannot be, this process ends, as the parent waits for it."""
        try:
            packed = pack(message)
            with self._lock:
                self._writer.write(packed)
                self._writer.flush()
        except (MemoryError, OSError):
            os._exit(BROKEN)

    def _listen(self, loop: asyncio.AbstractEventLoop, methods: Methods, over: asyncio.Event) -> None:
        try:
            while (message := read(self._reader)) is not None:
                loop.call_soon_threadsafe(self._take, methods, message)
            loop.call_soon_threadsafe(over.set)
        except BaseException:  # a lack of memory, as a rule; nobody would take the calls that follow
            os._exit(BROKEN)

    def _take(self, methods: Methods, message: dict[str, Any]) -> None:
        if "call" in message:
            number = message["call"]
            method = methods[message["method"]]
            try:
                self._tasks[number] = asyncio.create_task(self._run(number, method, message["argument"]))
            except MemoryError:
                os._exit(BROKEN)
        elif "cancel" in message:
            if task := self._tasks.get(message["cancel"]):
                task.cancel()
        else:
            self.send({"pong": message["ping"]})

    async def _run(self, number: int, method: Callable[[Any], Awaitable[Any]], argument: Any) -> None:
        self.send({"begun": number})
        try:
            packed = {"done": number, "result": await method(argument)}
            if (size := len(pack(packed))) > LIMIT:
                raise ValueError(f"it returned {size >> 20} MiB, and at most {LIMIT >> 20} MiB can be passed on")
        except asyncio.CancelledError:
            packed = {"done": number, "cancelled": True}
        except BaseException as error:
            packed = {"done": number, "error": f"{type(error).__name__}: {error}"}
        del self._tasks[number]
        self.send({**packed, "worn": memory_in_use()[1] > self._most})

    def _limit(self, memory: int) -> None:
        """Let this process take so many more bytes of memory; when it has kept half of them, it is worn out."""
        used, resident = memory_in_use()
        self._most = resident + memory / 2
        resource.setrlimit(resource.RLIMIT_AS, (used + memory + _SLACK, used + memory + _SLACK))


class _Logs(logging.Handler):
    """Sends what rlft logs to the parent."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        self._send({"log": record.getMessage(), "logger": record.name, "level": record.levelno})
