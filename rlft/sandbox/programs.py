"""The programs of the system that a sandbox is started with, and the limits as options of `prlimit`."""

from __future__ import annotations

import shutil

from rlft.errors import EnvironmentSetupError
from rlft.sandbox.base import MIB, Limits


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
