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


def grown(before: int, now: int) -> str:
    """Return what to add to the reason why a call is too late: by how much its process has grown, if that is much."""
    more = now - before
    return f"; its process took {more // MIB} MiB of memory meanwhile" if before and more >= _TELLING else ""
