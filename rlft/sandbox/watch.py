"""Looking at a tree of processes from outside: what they use together, and ending all of them. Linux only."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from rlft.sandbox.base import MIB, Limits, Stopped

# Page tables stay when the pages are dropped, and one page in each GiB of addresses needs two pages of tables.
_USED = (b"VmRSS:", b"VmPTE:", b"VmSwap:")
_BURIAL_SECONDS, _LOOK_SECONDS = 2.0, 0.005
_FILE_SIZE = 4096  # what an empty file costs the kernel, generously


def descendants(pid: int) -> list[int]:
    """The processes below `pid`, parents first. A process left by its parent belongs to the namespace's init."""
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
    """Memory in use by these processes, with swap and page tables; what two of them share counts twice."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
            total += 1024 * sum(int(line.split()[1]) for line in file if line.startswith(_USED))
    return total


def exceeded(pid: int, limits: Limits, work: str | None) -> Stopped | None:
    """Which limit the processes below `pid` exceed together. `work` is their writable folder, as they see it."""
    pids = descendants(pid)
    if used_bytes(pids) > limits.memory_mib * MIB:
        return "memory"
    # The first is the namespace's own, which the user of rlft may always look into. It has a child once the folders are
    # in place; before that, a folder of this name would be the host's.
    if work is not None and len(pids) > 1 and limits.file_bytes:
        with contextlib.suppress(OSError):
            place = os.statvfs(f"/proc/{pids[0]}/root{work}")
            if place.f_files - place.f_ffree > 64 + limits.file_bytes // _FILE_SIZE:
                return "files"
    return None


def kill_tree(pid: int) -> None:
    """Kill `pid` and all below it. Killing the init of a process namespace ends everything inside at once."""
    for each in [*descendants(pid), pid]:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)


async def bury(pid: int) -> None:
    """Reap a process that its parent has left, where this one is the first of a container and so inherits it.

    Only there: a zombie of ours keeps its number, elsewhere the number may already be that of another child of ours.
    """
    if os.getpid() != 1:
        return
    with contextlib.suppress(ChildProcessError):
        for _ in range(int(_BURIAL_SECONDS / _LOOK_SECONDS)):
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
            await asyncio.sleep(_LOOK_SECONDS)
