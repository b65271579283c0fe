"""How much memory this process takes."""

from __future__ import annotations

import os
from pathlib import Path

MIB = 1 << 20
_TELLING = 64 * MIB  # growth during one call that is worth a word


def memory_in_use() -> tuple[int, int]:
    """Return the bytes of address space of this process, and how many of them are in memory; 0 where it is unknown."""
    try:
        used, resident = Path("/proc/self/statm").read_text().split()[:2]
    except OSError:
        return 0, 0
    page = os.sysconf("SC_PAGE_SIZE")
    return int(used) * page, int(resident) * page


def killed_for_memory() -> int | None:
    """Return how many processes the kernel has killed since its start as memory ran out; `None` if it does not tell."""
    try:
        counts = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
        return int(counts["oom_kill"])  # those of a control group that was full are among them
    except (OSError, ValueError, KeyError):
        return None


def grown(before: int, now: int) -> str:
    """Return what to add to the reason why a call is too late: by how much its process has grown, if that is much."""
    more = now - before
    return f"; its process took {more // MIB} MiB of memory meanwhile" if before and more >= _TELLING else ""
