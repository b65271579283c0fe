"""SAPO."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from rlft.losses.base import Divisor, Loss

if TYPE_CHECKING:
    from torch import Tensor


class Sapo(Loss):
    """SAPO: soft bounds of the ratio.

    4 / t * sigmoid(t * (ratio - 1)) * A, a soft gate in place of a hard clip. The temperature t is
    `sapo_temperature_pos` where A > 0, else `sapo_temperature_neg`; the higher, the sooner a ratio away from 1 loses
    its gradient, which at ratio 1 is A for every t.
    """

    name: ClassVar[str] = "sapo"
    paper: ClassVar[str] = "arXiv:2511.20347"
    divisor: ClassVar[Divisor] = "rollouts"

    sapo_temperature_pos: float = Field(default=1.0, gt=0, description="Temperature of positive advantages.")
    sapo_temperature_neg: float = Field(default=1.05, gt=0, description="Temperature of the others.")

    def objective(self, ratio: Tensor, advantages: Tensor, logprobs: Tensor) -> Tensor:
        """The advantage through the gate."""
        bad = advantages.new_full(advantages.shape, self.sapo_temperature_neg)
        temperature = bad.masked_fill(advantages > 0, self.sapo_temperature_pos)
        return 4 / temperature * (temperature * (ratio - 1)).sigmoid() * advantages
