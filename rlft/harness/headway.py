"""The progress of a set of conversations, put together from that of the engine's calls."""

from __future__ import annotations

from rlft.progress import Progress


class Headway:
    """Reports how many rollouts are over, a number that never falls, and how many tokens were sampled.

    If rollouts have a single turn, each completion of the engine is one rollout that is over. If they may have several,
    nobody knows how many turns follow, so a rollout counts once its conversation has ended.
    """

    def __init__(self, progress: Progress, total: int, *, multi_turn: bool) -> None:
        self._progress, self._total, self._multi_turn = progress, total, multi_turn
        self.tokens = 0  # sampled in calls of the engine that have returned
        self._over, self._before_call = 0.0, 0  # rollouts that are over: now, and before the engine's present call
        self._tell(0)

    def of_call(
        self, done: float, total: float | None, what: str, *, tokens: int | None = None, loss: float | None = None
    ) -> None:
        """Return the `Progress` that is handed to a call of the engine."""
        del total, what, loss
        if not self._multi_turn:
            self._over = max(self._over, self._before_call + done)
        self._tell(tokens or 0)

    def note(self, over: int) -> None:
        """Report that so many rollouts are over; called between calls of the engine."""
        self._before_call = over
        self._over = max(self._over, float(over))
        self._tell(0)

    def _tell(self, tokens: int) -> None:
        self._progress(self._over, self._total, "rollouts", tokens=self.tokens + tokens)
