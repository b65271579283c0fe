"""How far a set of conversations is, from what their turns come to."""

from __future__ import annotations

from rlft.progress import Progress


class Headway:
    """Rollouts that are over, and the tokens that were sampled; what is over never becomes less.

    Of a single turn the engine's completions are the rollouts. Of several nobody knows how many more there will be, so
    a rollout counts when it is over.
    """

    def __init__(self, progress: Progress, total: int, *, multi_turn: bool) -> None:
        self._progress, self._total, self._multi_turn = progress, total, multi_turn
        self.tokens = 0  # of calls of the engine that have returned
        self._over, self._before_call = 0.0, 0
        self._tell(0)

    def of_call(
        self, done: float, total: float | None, what: str, *, tokens: int | None = None, loss: float | None = None
    ) -> None:
        """A `Progress` for one call of the engine."""
        del total, what, loss
        if not self._multi_turn:
            self._over = max(self._over, self._before_call + done)
        self._tell(tokens or 0)

    def note(self, over: int) -> None:
        """So many rollouts are over, between calls of the engine."""
        self._before_call = over
        self._over = max(self._over, float(over))
        self._tell(0)

    def _tell(self, tokens: int) -> None:
        self._progress(self._over, self._total, "rollouts", tokens=self.tokens + tokens)
