"""What this process may use of its machine, and uses: CPU cores, of which a container has fewer, and memory."""

from __future__ import annotations

import os
import re
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def cores_here(groups: Path = _GROUPS, own: Path = _OWN) -> int:
    """Return the cores that this process may run on, at most as many whole ones as its control groups pay for; >= 1.

    A limit of cgroup v1 is not seen. `groups` is where the kernel shows cgroup v2, `own` the file with this process's.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([allowed, *(int(quota) for quota in _quotas(groups, own))]))


def _quotas(groups: Path, own: Path) -> list[float]:
    """Return the cores that the group of this process, and each above it, may use at a time, where that is limited."""
    try:
        found = re.search(r"^0::/(.*)$", own.read_text(), re.MULTILINE)
    except OSError:
        return []
    place = groups / found[1] if found else groups
    quotas: list[float] = []
    for group in (place, *place.parents):
        if not group.is_relative_to(groups):
            break
        try:
            quota, period = (group / "cpu.max").read_text().split()
        except OSError:  # the root group has none, and a container may not see its own
            continue
        if quota != "max":
            quotas.append(int(quota) / int(period))
    return quotas


MIB = 1 << 20


def memory_in_use() -> tuple[int, int]:
    """Return the bytes of address space of this process, and how many of them are in memory; 0 where it is unknown."""
    try:
        used, resident = Path("/proc/self/statm").read_text().split()[:2]
    except OSError:
        return 0, 0
    page = os.sysconf("SC_PAGE_SIZE")
    return int(used) * page, int(resident) * page
