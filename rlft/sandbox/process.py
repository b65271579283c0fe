"""A child process whose time, output and memory are watched from outside."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from rlft.errors import SandboxError
from rlft.sandbox.base import Limits, SandboxResult, Stopped

logger = logging.getLogger(__name__)
_WATCH_SECONDS = 0.05
_STREAM_SECONDS = 1.0  # for which the streams of a program may stay open after its end or its time limit
_CHUNK = 1 << 16
Watch = Callable[[int], Stopped | None]  # says which limit the processes below a process exceed, if any
Kill = Callable[[int], None]  # ends a process and all below it
Fate = Callable[[], Stopped | None]  # says for which limit the kernel has ended the program, if it has


class LimitedProcess:
    """A `SandboxProcess` that is a local child process; made by `start`."""

    def __init__(
        self, process: asyncio.subprocess.Process, limits: Limits, watch: Watch, kill: Kill, fate: Fate
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process, self._limits, self._watch, self._kill, self._fate = process, limits, watch, kill, fate
        self._stdin, self._stdout = process.stdin, process.stdout
        self._started, self._left = time.perf_counter(), limits.output_bytes
        self._stopped: Stopped | None = None
        self._timer = asyncio.get_running_loop().call_later(limits.seconds, self._out_of_time)
        self._stderr = asyncio.create_task(_read_bounded(process.stderr, limits.output_bytes, self.stop))
        self._watcher = asyncio.create_task(self._watch_it())

    @property
    def stopped(self) -> Stopped | None:
        """The limit that ended the program, `caller` if it was ended from outside, else `None`."""
        if self._stopped is None:
            self._stopped = self._fate()  # kept, because the kernel's record is gone once the sandbox is
        if self._stopped is None and self._process.returncode in (-signal.SIGXCPU, 128 + signal.SIGXCPU):
            return "cpu"
        return self._stopped

    def stop(self, why: Stopped) -> None:
        """Kill the program and everything it has started; only the first reason is kept."""
        if self.stopped is None and self._process.returncode is None:
            self._stopped = why
            self._kill(self._process.pid)

    async def write(self, data: bytes) -> None:
        """Send bytes to its stdin, if it still reads it."""
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._stdin.write(data)
            await self._stdin.drain()

    async def close_stdin(self) -> None:
        """Close its stdin, so that it reads the end of it."""
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._stdin.close()
            await self._stdin.wait_closed()

    async def read_line(self) -> bytes | None:
        """Return the next whole line of its stdout; `None` if there is none any more or the program was stopped."""
        try:
            line = await self._stdout.readline()
        except ValueError:  # longer than the reader's limit, which is output_bytes
            self.stop("output")
            return None
        self._left -= len(line)
        if self._left < 0:
            self.stop("output")
        return line if line.endswith(b"\n") and self._stopped is None else None

    async def result(self) -> SandboxResult:
        """Wait for its end and return how it ended."""
        stdout = await _read_bounded(self._stdout, max(self._left, 0), self.stop)
        stderr = await self._stderr
        code = await self._process.wait()
        seconds = time.perf_counter() - self._started
        return SandboxResult(128 - code if code < 0 else code, stdout, stderr, seconds, self.stopped)

    async def end(self) -> None:
        """Kill what still runs and free what the process held."""
        if self._stdout.at_eof():  # it is about to end by itself, so wait for its own exit code
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _WATCH_SECONDS)
        self.stop("caller")
        self._timer.cancel()
        self._watcher.cancel()
        self._stdin.close()
        self._timer = asyncio.get_running_loop().call_later(_STREAM_SECONDS, self._close_streams)
        while await self._stdout.read(_CHUNK):  # until its end, or until the streams are closed from here
            pass
        await self._stderr
        await self._process.wait()
        self._timer.cancel()

    def _out_of_time(self) -> None:
        self.stop("time")
        self._timer = asyncio.get_running_loop().call_later(_STREAM_SECONDS, self._close_streams)

    def _close_streams(self) -> None:
        """Close the streams from here: what a program left behind without a process namespace may hold them open."""
        self._process._transport.close()  # type: ignore[reportAttributeAccessIssue]

    async def _watch_it(self) -> None:
        while self._process.returncode is None:
            await asyncio.sleep(_WATCH_SECONDS)
            try:
                if why := self._watch(self._process.pid):
                    self.stop(why)
            except OSError:  # a process ended while it was looked at
                logger.debug("a program ended while it was watched", exc_info=True)


@contextlib.asynccontextmanager
async def start(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    limits: Limits,
    watch: Watch,
    kill: Kill,
    fate: Fate = lambda: None,
    pass_fds: Sequence[int] = (),
    folder: str = "/",
) -> AsyncIterator[LimitedProcess]:
    """Start `argv` in a session of its own, and end it when the context is left.

    `watch` is asked every 50 ms which limit the processes below it exceed, `fate` for which one the kernel ended them.
    `pass_fds` are closed here. Raises `SandboxError` if `argv` cannot be started.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env=dict(environment), pass_fds=tuple(pass_fds), cwd=folder, start_new_session=True,
            limit=limits.output_bytes,
        )  # fmt: skip
    except OSError as error:
        raise SandboxError(f"{argv[0]} does not start: {error}", where="sandbox") from error
    finally:
        for descriptor in pass_fds:
            os.close(descriptor)
    limited = LimitedProcess(process, limits, watch, kill, fate)
    try:
        yield limited
    finally:
        await asyncio.shield(limited.end())  # also when this task is cancelled


async def _read_bounded(stream: asyncio.StreamReader, limit: int, stop: Callable[[Stopped], None]) -> bytes:
    """Read all that comes and keep `limit` bytes of it; more is thrown away and stops the program."""
    kept = bytearray()
    while chunk := await stream.read(_CHUNK):
        if len(kept) + len(chunk) > limit:
            stop("output")
        kept += chunk[: limit - len(kept)]
    return bytes(kept)
