"""A child process whose time, output and memory are watched from outside, with all processes below it. Linux only."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from rlft.errors import EnvironmentSetupError, SandboxError
from rlft.sandbox.base import MIB, Limits, SandboxResult, Stopped


def limit_options(limits: Limits) -> list[str]:
    """Return the limits of each process as options of `prlimit`, all but the number of processes."""
    values = {
        "as": limits.memory_mib * MIB,
        "cpu": f"{limits.cpu_seconds}:{limits.cpu_seconds + 1}",  # SIGXCPU, then SIGKILL for a program that ignores it
        "core": 1,  # with 0 the host's handler of core dumps would still be called; see core(5)
        "fsize": limits.file_bytes,
        "memlock": 0,
        "msgqueue": 0,
        "nofile": 64,
        "sigpending": 256,
    }
    return [f"--{name}={value}" for name, value in values.items()]


def find_program(program: str, fix: str) -> str:
    """Return the path of a program of the system. Raises `EnvironmentSetupError` with `fix` if it is not installed."""
    found = shutil.which(program, path="/usr/bin:/bin:/usr/local/bin")
    if found is None:
        raise EnvironmentSetupError(f"there is no {program}", where="sandbox", fix=fix)
    return found


logger = logging.getLogger(__name__)
_WATCH_SECONDS = 0.05
_STREAM_SECONDS = 1.0  # for which the streams of a program may stay open after its end or its time limit
_CHUNK = 1 << 16
Watch = Callable[[int], Stopped | None]  # says which limit the processes below a process exceed, if any


class LimitedProcess:
    """A `SandboxProcess` that is a local child process; made by `start`."""

    def __init__(self, process: asyncio.subprocess.Process, limits: Limits, watch: Watch) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process, self._watch = process, watch
        self._stdin, self._stdout = process.stdin, process.stdout
        self._started, self._left = time.perf_counter(), limits.output_bytes
        self._stopped: Stopped | None = None
        self._timer = asyncio.get_running_loop().call_later(limits.seconds, self._out_of_time)
        self._stderr = asyncio.create_task(_read_bounded(process.stderr, limits.output_bytes, self.stop))
        self._watcher = asyncio.create_task(self._watch_it())

    @property
    def stopped(self) -> Stopped | None:
        """The limit that ended the program, `caller` if it was ended from outside, else `None`."""
        if self._stopped is None and self._process.returncode in (-signal.SIGXCPU, 128 + signal.SIGXCPU):
            return "cpu"
        return self._stopped

    def stop(self, why: Stopped) -> None:
        """Kill the program and everything it has started; only the first reason is kept."""
        if self.stopped is None and self._process.returncode is None:
            self._stopped = why
            kill_tree(self._process.pid)

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
    pass_fds: Sequence[int] = (),
    folder: str = "/",
) -> AsyncIterator[LimitedProcess]:
    """Start `argv` in a session of its own, and end it when the context is left.

    `watch` is asked every 50 ms which limit the processes below it exceed. `pass_fds` are closed here. Raises
    `SandboxError` if `argv` cannot be started.
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
    limited = LimitedProcess(process, limits, watch)
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


# Lines of /proc/PID/status that add up to memory in use. Page tables (VmPTE) count because they stay when their pages
# are dropped: a program that touches one page in each GiB of addresses needs two pages of tables for each.
_USED = (b"VmRSS:", b"VmPTE:", b"VmSwap:")
_BURIAL_SECONDS, _LOOK_SECONDS = 2.0, 0.005
_FILE_SIZE = 4096  # more than an empty file costs the kernel


def descendants(pid: int) -> list[int]:
    """Return the processes below `pid`, parents first. The namespace's init adopts those whose parent has ended."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        current = waiting.pop()
        try:
            threads = os.listdir(f"/proc/{current}/task")
        except OSError:
            continue
        for thread in threads:
            with contextlib.suppress(OSError), open(f"/proc/{current}/task/{thread}/children") as file:
                children = [int(child) for child in file.read().split()]
                found += children
                waiting += children
    return found


def used_bytes(pids: list[int]) -> int:
    """Return the bytes of memory that these processes use, with swap and page tables; what two share counts twice."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
            total += 1024 * sum(int(line.split()[1]) for line in file if line.startswith(_USED))
    return total


def exceeded(pid: int, limits: Limits, work: str | None) -> Stopped | None:
    """Return the limit that the processes below `pid` exceed together, `None` if none.

    `work` is their writable folder, as they see it.
    """
    pids = descendants(pid)
    if used_bytes(pids) > limits.memory_mib * MIB:
        return "memory"
    # The first of them is the init of the namespace, into which the user of rlft may always look. Before it has a child
    # the folders are not in place, and a folder of this name would be the host's.
    if work is not None and len(pids) > 1 and limits.file_bytes:
        with contextlib.suppress(OSError):
            place = os.statvfs(f"/proc/{pids[0]}/root{work}")
            if place.f_files - place.f_ffree > 64 + limits.file_bytes // _FILE_SIZE:
                return "files"
    return None


def kill_tree(pid: int) -> None:
    """Kill `pid` and all processes below it. The kernel ends all of a process namespace with its init."""
    for each in [*descendants(pid), pid]:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)


async def bury(pid: int) -> None:
    """Reap a process whose parent has ended, if this process is the init (1) of a container and so inherits it.

    Only then the number is sure to be that of the zombie; elsewhere another child of this process may have it by now.
    """
    if os.getpid() != 1:
        return
    with contextlib.suppress(ChildProcessError):
        for _ in range(int(_BURIAL_SECONDS / _LOOK_SECONDS)):
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
            await asyncio.sleep(_LOOK_SECONDS)
