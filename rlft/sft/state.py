"""The budget of supervised fine-tuning, and the state that it has reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Unit = Literal["steps", "s"]


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds training by a number of optimizer steps or of seconds; its progress is counted in the same unit."""

    amount: float
    unit: Unit

    @classmethod
    def of(cls, steps: int | None, seconds: float | None) -> Budget:
        """Return the budget of whichever is given. Raises ValueError unless exactly one is."""
        if steps is not None and seconds is None:
            return cls(steps, "steps")
        if seconds is not None and steps is None:
            return cls(seconds, "s")
        raise ValueError("give steps or seconds")

    def spent(self, state: SftState) -> float:
        """Return how much of `amount` is used up."""
        return state.steps if self.unit == "steps" else state.seconds


@dataclass(slots=True)
class SftState:
    """Holds what was done so far: seconds of training, and each step's loss, learning rate and gradient norm."""

    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    learning_rates: list[float] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """The number of optimizer steps taken, which is also how many batches were drawn."""
        return len(self.losses)

    def note_step(self, loss: float, learning_rate: float, grad_norm: float) -> None:
        """Append the numbers of one more step."""
        self.losses.append(loss)
        self.learning_rates.append(learning_rate)
        self.grad_norms.append(grad_norm)
