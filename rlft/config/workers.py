"""How an environment's code is run: in this process or in others, and with how much side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Isolation = Literal["thread", "process"]


@dataclass(frozen=True, slots=True)
class Workers:
    """Says where code of an environment runs. What is `None` is left to the environment or follows from the rest.

    `isolation` is `thread` (of this process) or `process` (worker processes), by default what the environment says;
    `processes` the number of these, `memory_mib` the MiB that each may take, and `concurrency` how many calls run side
    by side.
    """

    isolation: Isolation | None = None
    processes: int | None = None
    memory_mib: int | None = None
    concurrency: int | None = None
