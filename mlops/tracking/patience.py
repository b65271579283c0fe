"""How long a store that does not answer is left alone, so that waiting for it never adds up."""

from __future__ import annotations

import time

# Twice as long after each failure in a row. A store that hangs takes some twenty seconds at first (`QUICK_HTTP`, tried
# twice), then a probe of five seconds after each of ever longer pauses.
PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 30.0, 600.0
STORE = "store"  # the place without which no other is of use


class Patience:
    """Which places are left alone for now: the store, and others that may be away by themselves."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}  # until when a place is left alone, by the clock
        self._failures: dict[str, int] = {}  # how often in a row a place has failed

    @property
    def doubts_store(self) -> bool:
        """Whether the store did not answer when it was asked last."""
        return STORE in self._failures

    def is_quiet(self, place: str) -> bool:
        """Return whether a place is left alone for now; while the store is, all are."""
        now = time.monotonic()
        return any(now < self._until.get(name, 0.0) for name in {place, STORE})

    def failed(self, place: str) -> None:
        """Leave a place alone for a while."""
        times = self._failures[place] = self._failures.get(place, 0) + 1
        pause = PAUSE_SECONDS * 2 ** (min(times, 20) - 1)
        self._until[place] = time.monotonic() + min(pause, LONGEST_PAUSE_SECONDS)

    def answered(self, place: str) -> None:
        """Trust a place again."""
        self._failures.pop(place, None)

    def end_pauses(self) -> None:
        """Let every place be tried once more now."""
        self._until.clear()
