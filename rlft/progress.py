"""The protocol by which a long stage reports its progress, and a meter that does so.

The code of a stage calls a `Progress` that it is given; the default, `silent`, ignores all reports.
"""

from __future__ import annotations

import threading
from typing import Protocol


class Progress(Protocol):
    """Receives a stage's reports, from any thread and as often as is convenient; it must not raise."""

    def __call__(
        self, done: float, total: float | None, what: str, *, tokens: int | None = None, loss: float | None = None
    ) -> None:
        """Report that `done` of `total` are done; `total` is `None` if it is not known.

        `what` names what is counted, in the plural (`rollouts`; `s` for seconds), or says what is going on if nothing
        is counted. `tokens` is how many were processed so far, `loss` is the last one. The first report says where the
        stage begins, which is not 0 after a resume; another `what`, or a smaller `done`, begins its next part.
        """
        ...


def silent(
    done: float, total: float | None, what: str, *, tokens: int | None = None, loss: float | None = None
) -> None:
    """Ignore the report: the `Progress` of callers that want none."""


class Meter:
    """Adds up what is done, in any number of threads, and reports the sum; it begins by reporting 0."""

    def __init__(self, progress: Progress, total: float | None, what: str) -> None:
        self._progress, self._total, self._what = progress, total, what
        self._done, self._tokens = 0.0, 0
        self._lock = threading.Lock()
        progress(0, total, what)

    def add(self, done: float = 1, tokens: int = 0) -> None:
        """Add to what is done, and to the tokens that were processed for it, and report the sums."""
        with self._lock:  # also around the report, so that reports come in order
            self._done += done
            self._tokens += tokens
            self._progress(self._done, self._total, self._what, tokens=self._tokens or None)
