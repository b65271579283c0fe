"""How busy this machine is with other work, which makes a run slower."""

from __future__ import annotations

import os


def busy_now() -> float:
    """Return how many programs each core has had to do for a minute, at least 1: more than that slows all of them."""
    return max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0)


def said_of(busy: float) -> list[str]:
    """Return what is said of a machine that is as busy as that; nothing of one that is not."""
    if busy < 1.5:
        return []
    waits = os.environ.get("OMP_WAIT_POLICY", "PASSIVE")
    spin = "" if waits.upper() == "PASSIVE" else f", and so with OMP_WAIT_POLICY unset (it is {waits})"
    return [
        f"This machine is busy with {busy:.1f} programs for each core, which makes the ranges wide; it would be "
        f"quicker alone{spin}."
    ]
