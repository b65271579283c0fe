"""Where a process of Ray is, which decides by what others reach it, and whether they may end it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlft.distributed.local_cluster import address_here

_NUMBERS = Path("/proc/self/ns/pid")


@dataclass(frozen=True, slots=True)
class Place:
    """The number of a process, the address by which Ray knows its machine, and what the number holds in.

    `numbers` is the kernel's name of the process's namespace; empty where the system has none. The machine's own name
    says nothing: containers and cloned machines may share it.
    """

    pid: int
    address: str
    numbers: str

    @classmethod
    def here(cls) -> Place:
        """Return the place of this process, which is connected to Ray."""
        return cls(os.getpid(), address_here(), os.readlink(_NUMBERS) if _NUMBERS.is_symlink() else "")

    def sees(self, other: Place) -> bool:
        """Return whether the other's number is that of the same process here."""
        return (self.address, self.numbers) == (other.address, other.numbers)


def are_together(places: Sequence[Place]) -> bool:
    """Return whether all processes are on one machine, so that they reach each other on loopback."""
    return len({each.address for each in places}) == 1
