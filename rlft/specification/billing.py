"""The bill of a score: what its judges were asked, noted by whoever asks, in whichever thread or task that happens."""

from __future__ import annotations

import threading
from contextvars import ContextVar

from rlft.types import Judging, add_judging


class Bill:
    """Adds up what judges were asked for one score, from any number of threads; `total` is `None` before the first."""

    def __init__(self) -> None:
        self.total: Judging | None = None
        self._lock = threading.Lock()

    def add(self, judging: Judging) -> None:
        """Add what a judge was asked."""
        with self._lock:
            self.total = add_judging((self.total, judging))


_OPEN: ContextVar[Bill | None] = ContextVar("rlft_bill", default=None)


def pay_by(bill: Bill) -> None:
    """Let all that judges are asked from here on, in this task and the threads that it starts, go on this bill."""
    _OPEN.set(bill)


def charge(judging: Judging) -> None:
    """Put what a judge was asked on the bill of the score that is being made; outside of one nobody counts it."""
    if (bill := _OPEN.get()) is not None:
        bill.add(judging)
