"""Looks at a tree of processes from outside: measures what they use together, and ends all of them. Linux only."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from rlft.sandbox.base import MIB, Limits, Stopped

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
