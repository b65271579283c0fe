"""What a monitor has seen."""

from __future__ import annotations

from dataclasses import dataclass

from rlft.config.training import Action

GUIDE = "docs/guide/monitors.md"


@dataclass(frozen=True, slots=True)
class Alarm:
    """What a monitor has seen after so many rounds: a sentence with its numbers, another that says what to do."""

    monitor: str
    action: Action
    rounds: int
    what: str
    remedy: str

    @property
    def text(self) -> str:
        """Both sentences, when it was seen, and where the guide explains them."""
        after = "1 round" if self.rounds == 1 else f"{self.rounds} rounds"
        return f"After {after}: {self.what} {self.remedy} More: {GUIDE}#{self.monitor}"
