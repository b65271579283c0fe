"""What each trainer says of itself while it trains."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a trainer has done so far: its `beats` rise with everything that it does.

    `done` of `total` are done of `what`, as `rlft.progress.Progress` takes them; the total is that of all trainers.
    """

    beats: int = 0
    done: float = 0.0
    total: float | None = None
    what: str = ""
    tokens: int | None = None
