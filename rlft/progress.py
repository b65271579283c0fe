"""How far a long stage is, told to whoever asked. Stages have no names here, and nobody need be listening."""

from __future__ import annotations

import threading
from typing import Protocol


class Progress(Protocol):
    """Takes what a stage says of itself: from any thread, as often as is convenient, and without raising."""

    def __call__(
        self, done: float, total: float | None, what: str, *, tokens: int | None = None, loss: float | None = None
    ) -> None:
        """So many of `total` are done; `None` where nobody knows how many there are.

        `what` names what is counted, in the plural (`rollouts`; `s` for seconds), or says what is going on where
        nothing is. `tokens` were gone through for what is done, `loss` is the last one. The first report says where the
        stage begins; another `what`, or less that is done, begins the next part of it.
        """
        ...


def silent(
    done: float, total: float | None, what: str, *, tokens: int | None = None, loss: float | None = None
) -> None:
    """A `Progress` that nobody listens to."""


class Meter:
    """Adds up what is done, in any number of threads, and reports it; the first report is that nothing is."""

    def __init__(self, progress: Progress, total: float | None, what: str) -> None:
        self._progress, self._total, self._what = progress, total, what
        self._done, self._tokens = 0.0, 0
        self._lock = threading.Lock()
        progress(0, total, what)

    def add(self, done: float = 1, tokens: int = 0) -> None:
        """So much more is done."""
        with self._lock:
            self._done += done
            self._tokens += tokens
            self._progress(self._done, self._total, self._what, tokens=self._tokens or None)
