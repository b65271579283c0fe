"""What runs in a worker process: it takes calls from its parent, one after the other, and sends the results back.

The messages between them are JSON, one a line. Nothing is ever unpickled.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import json
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, BinaryIO

MIB = 1 << 20
BROKEN = 70
"""The exit code of a worker that can neither take calls nor answer them any more."""
Methods = dict[str, Callable[[Any], Awaitable[Any]]]
_SLACK = 256 * MIB  # of address space, which threads and malloc reserve and do not fill
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


def main(fd: int, parent: int) -> None:
    """Serve the parent until it closes its end. It gives its process id, as it may have ended before this began."""
    os.set_inheritable(fd, False)  # programs that the environment starts must not hold it open
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers itself
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)
    asyncio.run(_Child(socket.socket(fileno=fd)).serve())


class _Child:
    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._lock = connection, threading.Lock()
        self._methods: Methods = {}
        self._most: float = float("inf")  # bytes of memory after which this process is worn out

    async def serve(self) -> None:
        """Open the handler that the first message names, and run calls until there are no more."""
        lines = self._connection.makefile("rb")
        opening = json.loads(lines.readline() or "null")
        if opening is None:
            return
        logging.getLogger("rlft").addHandler(_Logs(self.send))
        logging.getLogger("rlft").setLevel(logging.INFO)
        try:
            module, _, function = opening["open"].partition(":")
            self._methods = await getattr(importlib.import_module(module), function)(opening["payload"])
            if opening["memory_mib"]:
                self._limit(opening["memory_mib"] * MIB)
        except BaseException as error:
            self.send({"failed": str(error), "kind": type(error).__name__})
            return
        self.send({"ready": True})
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._listen, args=(loop, lines), name="rlft-calls", daemon=True).start()
        await loop.create_future()  # the other thread ends this process

    def send(self, message: dict[str, Any]) -> None:
        """Send a message, from any thread. Where that cannot be, this process ends, as the parent waits for it."""
        try:
            packed = json.dumps(message).encode() + b"\n"  # in ASCII: a model's text need not be valid Unicode
            with self._lock:
                self._connection.sendall(packed)
        except (MemoryError, OSError):
            os._exit(BROKEN)

    def _listen(self, loop: asyncio.AbstractEventLoop, lines: BinaryIO) -> None:
        try:
            for line in lines:
                loop.call_soon_threadsafe(self._take, json.loads(line))
        except BaseException:  # a lack of memory, as a rule; nobody would take the calls that follow
            os._exit(BROKEN)
        os._exit(0)

    def _take(self, message: dict[str, Any]) -> None:
        if "ping" in message:  # the answer shows that no code blocks this process
            self.send({"pong": True})
            return
        try:
            self._task = asyncio.create_task(self._run(**message))
        except MemoryError:
            os._exit(BROKEN)

    async def _run(self, call: int, method: str, argument: Any) -> None:
        try:
            packed = {"done": call, "result": await self._methods[method](argument)}
            json.dumps(packed)  # raises for what cannot be passed on
        except BaseException as error:
            packed = {"done": call, "error": f"{type(error).__name__}: {error}"}
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


def memory_in_use() -> tuple[int, int]:
    """Return the bytes of address space of this process, and how many of them are in memory; 0 where it is unknown."""
    try:
        used, resident = Path("/proc/self/statm").read_text().split()[:2]
    except OSError:
        return 0, 0
    page = os.sysconf("SC_PAGE_SIZE")
    return int(used) * page, int(resident) * page
