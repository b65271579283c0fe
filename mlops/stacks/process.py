"""A program in a session of the stack's sandbox, spoken to through `rlft.sandbox.relay`."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from zenml.sandboxes import SandboxProcess, SandboxSession

from rlft.errors import SandboxError
from rlft.sandbox.base import Limits, SandboxResult, Stopped
from rlft.workers.threads import in_thread

logger = logging.getLogger(__name__)
_KILLED = 128 + signal.SIGKILL  # the exit code of a program that was killed together with the relay
_START_SECONDS = 120.0  # that Python and the relay may take to start in a session that exists
_COMPLAINT = 500  # characters of the relay's own stderr that are kept


class StackProcess:
    """A `rlft.sandbox.base.SandboxProcess` in a session of the stack's sandbox; made by `StackSandbox.open`.

    Threads read what the relay writes and hand it to the event loop, which alone changes the state of the process.
    """

    def __init__(self, session: SandboxSession, running: SandboxProcess, limits: Limits) -> None:
        self._session, self._running, self._limits = session, running, limits
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._started, self._ended = asyncio.Event(), asyncio.Event()
        self._begun, self._runs = time.perf_counter(), False
        self._begun_line, self._stderr, self._complaints = b"", b"", ""
        self._stdout_bytes, self._files_sent = 0, 0
        self._code: int | None = None
        self._stopped: Stopped | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def begin(self) -> None:
        """Listen, and wait until the program has started. Raises SandboxError when it does not."""
        loop = asyncio.get_running_loop()
        _listen(loop, self._running.stdout, self._take, self._end)
        _listen(loop, self._running.stderr, self._complain)
        try:
            await asyncio.wait_for(self._started.wait(), _START_SECONDS)
        except TimeoutError:
            self._complain(f"nothing within {_START_SECONDS:g} s")
        if not self._runs:
            await asyncio.sleep(0.1)  # what the relay writes to stderr is read by another thread, and may come later
            raise SandboxError(f"the stack's sandbox did not run a program: {self._complaints}", where="sandbox")
        self._begun = time.perf_counter()
        self._timer = loop.call_later(self._limits.seconds, self.stop, "time")

    @property
    def stopped(self) -> Stopped | None:
        """The limit that ended the program, `caller` if it was ended from outside, else `None`."""
        return "cpu" if self._stopped is None and self._code == -signal.SIGXCPU else self._stopped

    def stop(self, why: Stopped) -> None:
        """End the program now; the first reason is kept."""
        if self._stopped is None and not self._ended.is_set():
            self._stopped = why
            self._lines.put_nowait(None)
            threading.Thread(target=self._running.kill, daemon=True).start()  # it blocks, and the loop must not

    async def write(self, data: bytes) -> None:
        """Send bytes to its stdin. Raises SandboxError when a sandbox that lives does not take them."""
        await self._send(b"%d\n" % len(data) + data)

    async def close_stdin(self) -> None:
        """Let it read the end of its stdin."""
        await self._send(b"-1\n")

    async def read_line(self) -> bytes | None:
        """Return the next whole line of its stdout; `None` after the last one, or when it was stopped."""
        line = await self._lines.get()
        if line is None or self._stopped is not None:
            self._lines.put_nowait(None)  # for the next call
            return None
        return line

    async def result(self) -> SandboxResult:
        """Wait for its end and return how it ended, with the lines of stdout that were not read."""
        unread: list[bytes] = []
        while (line := await self._lines.get()) is not None:
            unread.append(line)
        self._lines.put_nowait(None)
        stdout = b"".join([*unread, self._begun_line])
        code = _KILLED if self._code is None else self._code
        seconds = time.perf_counter() - self._begun
        exit_code = 128 - code if code < 0 else code  # Python's -n after signal n is 128 + n in a `SandboxResult`
        return SandboxResult(exit_code, stdout, self._stderr, seconds, self.stopped)

    async def _send(self, content: bytes) -> None:
        """Upload the next file that the relay reads. A program that has ended need not take it."""
        self._files_sent += 1
        path = f"in/{self._files_sent}"
        try:
            await in_thread(lambda: upload(self._session, content, path))
        except Exception as cause:
            if self._stopped is None and not self._ended.is_set():
                raise SandboxError(f"the stack's sandbox takes no files: {cause}", where="sandbox") from cause

    def _take(self, line: str) -> None:
        """Take a line of the relay (see `rlft.sandbox.relay`); one of another form is the program's, and ignored."""
        kind, _, text = line.strip().partition(" ")
        try:
            data = base64.b64decode(text, validate=True)
            self._code = int(data) if kind == "x" else self._code
        except (binascii.Error, ValueError):
            return
        if kind == "s":
            self._runs = True
            self._started.set()
        elif kind == "o" and self._stopped is None:
            *whole, self._begun_line = (self._begun_line + data).split(b"\n")
            for each in whole:
                self._lines.put_nowait(each + b"\n")
        elif kind == "e" and self._stopped is None:
            self._stderr += data
        self._stdout_bytes += len(data) * (kind == "o")
        if max(self._stdout_bytes, len(self._stderr)) > self._limits.output_bytes:
            self.stop("output")

    def _complain(self, line: str) -> None:
        self._complaints = (self._complaints + line)[-_COMPLAINT:]

    def _end(self) -> None:
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()
        self._lines.put_nowait(None)
        self._started.set()  # a program that ends before it has started must not be waited for


def upload(session: SandboxSession, content: bytes, path: str) -> None:
    """Put a file into a session. Blocks."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        session.upload_file(file.name, path)


def _listen(
    loop: asyncio.AbstractEventLoop,
    stream: Callable[[], Iterator[str]],
    take: Callable[[str], None],
    end: Callable[[], None] | None = None,
) -> None:
    """Call `take` in the loop with each line of a stream, and `end` after the last; a thread reads the stream."""

    def tell(function: Callable[..., Any], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody listens
            loop.call_soon_threadsafe(function, *arguments)

    def run() -> None:
        try:
            for line in stream():
                tell(take, line)
        except Exception:
            logger.debug("a stream of the stack's sandbox broke", exc_info=True)
        finally:
            if end is not None:
                tell(end)

    threading.Thread(target=run, name="rlft-sandbox", daemon=True).start()
