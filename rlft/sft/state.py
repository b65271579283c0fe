"""How long supervised fine-tuning goes on, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Unit = Literal["steps", "s"]


@dataclass(frozen=True, slots=True)
class Budget:
    """So many optimizer steps, or so many seconds of training; progress is counted in what is bounded."""

    amount: float
    unit: Unit

    @classmethod
    def of(cls, steps: int | None, seconds: float | None) -> Budget:
        """Raises ValueError unless exactly one is given."""
        if steps is not None and seconds is None:
            return cls(steps, "steps")
        if seconds is not None and steps is None:
            return cls(seconds, "s")
        raise ValueError("give steps or seconds")

    def spent(self, state: SftState) -> float:
        """How much of `amount` is used up."""
        return state.steps if self.unit == "steps" else state.seconds


@dataclass(slots=True)
class SftState:
    """What was done so far: seconds of training, and of each step its loss, learning rate and norm of the gradient."""

    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    learning_rates: list[float] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """Optimizer steps taken: also how many batches were drawn."""
        return len(self.losses)

    def note_step(self, loss: float, learning_rate: float, grad_norm: float) -> None:
        """One more step."""
        self.losses.append(loss)
        self.learning_rates.append(learning_rate)
        self.grad_norms.append(grad_norm)
