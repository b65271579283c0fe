"""A control group of the kernel (cgroup v2) for each sandbox, where this process may make one; see cgroups(7).

It bounds memory that the watch cannot add up: what the kernel keeps for a program, and what is used between two looks.
A group that holds processes cannot give the memory controller to groups below it. So the group of a sandbox lies beside
that of this process, or below the root group of the machine, for which that rule does not hold. No process is moved.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import secrets
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rlft.errors import SandboxError
from rlft.sandbox.base import MIB, Limits, Stopped

logger = logging.getLogger(__name__)
# What the kernel keeps for an honest program and for bwrap. It is added to the limit, so that for memory that both see
# the watch decides, with a group as without.
KERNEL_MIB = 32
_OWN_PROCESSES = 4  # bwrap, the first process of the namespace, and room for the processes that start them
_REMOVE_SECONDS, _LOOK_SECONDS = 2.0, 0.005
_ENTER = 'echo $$ > "$0" && exec "$@"'  # a shell puts itself into the group, then becomes the command


@dataclass(frozen=True, slots=True)
class Group:
    """The control group of one sandbox; without a path there is none, and nothing is bounded."""

    path: Path | None = None

    @property
    def launcher(self) -> list[str]:
        """The words that are put before a command so that it starts in the group."""
        return ["/bin/sh", "-c", _ENTER, str(self.path / "cgroup.procs")] if self.path else []

    def fate(self) -> Stopped | None:
        """Return `memory` if the kernel has killed its processes because they reached the group's own limit.

        The count `oom_kill` alone would not do: it also grows when the machine or a group above runs out of memory.
        """
        if self.path is None:
            return None
        try:
            events = dict(line.split() for line in (self.path / "memory.events").read_text().splitlines())
        except OSError:  # removed, or taken away from outside
            return None
        return "memory" if all(int(events.get(name, 0)) > 0 for name in ("oom", "oom_kill")) else None


def find_parent(proc: Path = Path("/proc/self")) -> Path | None:
    """Return the group below which sandboxes get theirs; `None` where this process may not make groups.

    It is tried out with a process. Groups that killed processes have left there are removed.
    """
    parent = _candidate(proc)
    if parent is None:
        return None
    try:
        _enable(parent)
        _remove_left_behind(parent)
        path = _make(parent, Limits())
        try:
            subprocess.run([*Group(path).launcher, "/bin/true"], check=True, capture_output=True, timeout=10)
        finally:
            path.rmdir()
    except (OSError, subprocess.SubprocessError) as error:
        logger.debug("a sandbox gets no control group: %s", error)
        return None
    return parent


@asynccontextmanager
async def own_group(parent: Path | None, limits: Limits) -> AsyncIterator[Group]:
    """Make a group below `parent` for one sandbox; at the end kill all processes in it. Raises `SandboxError`."""
    if parent is None:
        yield Group()
        return
    try:
        group = Group(_make(parent, limits))
    except OSError as error:
        raise SandboxError(f"no control group can be made: {error}", where=f"sandbox, {parent}") from error
    try:
        yield group
    finally:
        await _remove(group)


def _candidate(proc: Path) -> Path | None:
    """Return the parent of this process's group, or that group if it is the machine's root.

    It is `None` without cgroup v2.
    """
    own = re.search(r"^0::(/.*)$", (proc / "cgroup").read_text(), re.MULTILINE) if (proc / "cgroup").exists() else None
    if own is None:
        return None
    for line in (proc / "mountinfo").read_text().splitlines():
        mount, _, system = line.partition(" - ")
        root, place = mount.split()[3:5]
        if system.split()[0] != "cgroup2" or not Path(own[1]).is_relative_to(root):
            continue
        group = Path(place, Path(own[1]).relative_to(root))
        if group == Path(place):  # nothing above can be seen; only the root group of the machine has no type
            return None if (group / "cgroup.type").exists() else group
        return None if _limited(group) else group.parent
    return None


def _limited(group: Path) -> bool:
    """Return whether the memory of this group has a limit, which a group beside it would escape."""
    limit = group / "memory.max"
    return limit.exists() and limit.read_text().strip() != "max"


def _enable(parent: Path) -> None:
    """Give groups below `parent` the memory controller and, if possible, that of processes. Raises `OSError`."""
    control = parent / "cgroup.subtree_control"
    given = control.read_text().split()
    if "memory" not in given:
        control.write_text("+memory")
    if "pids" not in given:
        with contextlib.suppress(OSError):  # RLIMIT_NPROC bounds the number of processes too
            control.write_text("+pids")


def _make(parent: Path, limits: Limits) -> Path:
    """Make a new group with these limits. Raises `OSError`."""
    path = parent / f"{_prefix()}{os.getpid()}-{_started(os.getpid())}-{secrets.token_hex(4)}"
    path.mkdir()
    try:
        (path / "memory.max").write_text(str((limits.memory_mib + KERNEL_MIB) * MIB + limits.file_bytes))
        # These files are not on every machine: swap may be off, and the controller of processes not given.
        others = {"memory.swap.max": 0, "memory.oom.group": 1, "pids.max": limits.processes + _OWN_PROCESSES}
        for name, value in others.items():
            if (path / name).exists():
                (path / name).write_text(str(value))
    except OSError:
        path.rmdir()
        raise
    return path


async def _remove(group: Group) -> None:
    assert group.path is not None
    _kill(group.path)
    for _ in range(int(_REMOVE_SECONDS / _LOOK_SECONDS)):
        try:
            group.path.rmdir()
        except FileNotFoundError:
            return
        except OSError:  # a process in it is still dying
            await asyncio.sleep(_LOOK_SECONDS)
        else:
            return
    logger.warning("the control group %s could not be removed", group.path)


def _kill(path: Path) -> None:
    with contextlib.suppress(OSError):
        (path / "cgroup.kill").write_text("1")


def _remove_left_behind(parent: Path) -> None:
    """Remove the groups of processes that have ended; their number may belong to another process by now."""
    for path in parent.glob(f"{_prefix()}*"):
        owner = re.fullmatch(r"([0-9]+)-([0-9]+)-[0-9a-f]+", path.name.removeprefix(_prefix()))
        if owner and _started(int(owner[1])) != owner[2]:
            _kill(path)
            with contextlib.suppress(OSError):  # its processes are still dying, or another rlft was quicker
                path.rmdir()


def _prefix() -> str:
    """Return what the names of groups begin with.

    It is that of the process namespace, as groups may be seen from several of these.
    """
    return f"rlft-sandbox-{os.stat('/proc/self/ns/pid').st_ino}-"


def _started(pid: int) -> str | None:
    """When a process started, in clock ticks since the machine did; `None` if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]
