"""The SAPO loss, which has a smooth function of the ratio in place of clipping."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from rlft.training.losses import Divisor, Loss

if TYPE_CHECKING:
    from torch import Tensor


class Sapo(Loss):
    """SAPO bounds the ratio softly, by a sigmoid in place of a clip.

    The objective is 4 / t * sigmoid(t * (ratio - 1)) * A. The temperature t is `sapo_temperature_pos` where A > 0, else
    `sapo_temperature_neg`. The gradient by the ratio is A at ratio 1 for every t, and falls the faster away from 1 the
    higher t is.
    """

    name: ClassVar[str] = "sapo"
    paper: ClassVar[str] = "arXiv:2511.20347"
    divisor: ClassVar[Divisor] = "rollouts"

    sapo_temperature_pos: float = Field(
        default=1.0,
        gt=0,
        le=1000,
        description="Temperature of the sigmoid where the advantage is positive; the higher, the tighter the bound.",
    )
    sapo_temperature_neg: float = Field(
        default=1.05,
        gt=0,
        le=1000,
        description="Temperature of the sigmoid where the advantage is 0 or less; the higher, the tighter the bound.",
    )

    def objective(self, ratio: Tensor, advantages: Tensor, logprobs: Tensor) -> Tensor:
        """Return the advantage times the scaled sigmoid of the ratio."""
        bad = advantages.new_full(advantages.shape, self.sapo_temperature_neg)
        temperature = bad.masked_fill(advantages > 0, self.sapo_temperature_pos)
        return 4 / temperature * (temperature * (ratio - 1)).sigmoid() * advantages
