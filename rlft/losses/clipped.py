"""The losses with PPO's clipped ratio, which differ in how they bring tokens together."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field, model_validator

from rlft.losses.base import Divisor, Loss

if TYPE_CHECKING:
    from torch import Tensor


class Clipped(Loss):
    """min(ratio * A, clip(ratio, 1 - epsilon, 1 + epsilon_high) * A) (PPO, arXiv:1707.06347, eq. 7).

    With a bad advantage the first term has no bound, however large the ratio; `delta` caps the ratio there: two-sided
    clipping (INTELLECT-2, arXiv:2505.07291). It must exceed 1 + epsilon_high to leave the other side alone.
    """

    epsilon: float = Field(
        default=0.2,
        gt=0,
        lt=1,
        description="Ratios below 1 - epsilon are clipped; 3e-4 is usual for those of sequences.",
    )
    epsilon_high: float | None = Field(
        default=None, gt=0, description="Ratios above 1 + epsilon_high are clipped; null: `epsilon`."
    )
    delta: float | None = Field(
        default=None, gt=0, description="Cap of the ratio where the advantage is negative; null: none."
    )

    @model_validator(mode="after")
    def _clips_what_it_can(self) -> Self:
        if (self.epsilon_high or 0) >= 1:
            raise ValueError(
                f"epsilon_high={self.epsilon_high} is added to 1, so that hardly anything would be clipped; 0.28 is "
                "usual (only for cispo it is the cap itself)"
            )
        if self.delta is not None and self.delta <= self.bounds()[1]:
            raise ValueError(
                f"delta={self.delta} must be above 1 + epsilon_high (null: epsilon), where good advantages are "
                "clipped already; 4 is usual, or remove delta"
            )
        return self

    def objective(self, ratio: Tensor, advantages: Tensor, logprobs: Tensor) -> Tensor:
        """The smaller of the two products."""
        inside = ratio.clamp(*self.bounds())
        free = ratio if self.delta is None else ratio.clamp(max=self.delta)
        return (free * advantages).minimum(inside * advantages)

    def bounds(self) -> tuple[float, float]:
        """1 - epsilon and 1 + epsilon_high."""
        return 1 - self.epsilon, 1 + (self.epsilon if self.epsilon_high is None else self.epsilon_high)


class Dapo(Clipped):
    """DAPO: the mean over all tokens of the batch."""

    name: ClassVar[str] = "dapo"
    paper: ClassVar[str] = "arXiv:2503.14476"
    divisor: ClassVar[Divisor] = "tokens"


class Bnpo(Clipped):
    """TRL's name for the mean over tokens; `dapo` here.

    TRL divides it by the tokens of each micro-batch, so that its gradient depends on how the batch was cut.
    """

    name: ClassVar[str] = "bnpo"
    paper: ClassVar[str] = "TRL"
    divisor: ClassVar[Divisor] = "tokens"


class Grpo(Clipped):
    """GRPO as published: the mean over tokens of each rollout, then over rollouts; with ratios of sequences, GSPO."""

    name: ClassVar[str] = "grpo"
    paper: ClassVar[str] = "arXiv:2402.03300"
    divisor: ClassVar[Divisor] = "rollouts"


class DrGrpo(Clipped):
    """Dr. GRPO: no bias by length, as all rollouts are divided by the same; with `scale_rewards: none`."""

    name: ClassVar[str] = "dr_grpo"
    paper: ClassVar[str] = "arXiv:2503.20783"
    divisor: ClassVar[Divisor] = "length"
