"""The losses with PPO's clipped ratio (DAPO, BNPO, GRPO, Dr. GRPO), which differ in what their sum is divided by."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field, model_validator

from rlft.training.losses import Divisor, Loss

if TYPE_CHECKING:
    from torch import Tensor


class Clipped(Loss):
    """Defines losses with the objective min(ratio * A, clip(ratio, 1 - epsilon, 1 + epsilon_high) * A).

    That is eq. 7 of PPO (arXiv:1707.06347). With a negative advantage it has no lower bound, however large the ratio;
    `delta` caps the ratio in the first term: two-sided clipping (INTELLECT-2, arXiv:2505.07291). `delta` must exceed
    1 + epsilon_high, because below that it would change the objective for positive advantages, too.
    """

    epsilon: float = Field(
        default=0.2,
        gt=0,
        lt=1,
        description="Ratios below 1 - epsilon are clipped; 3e-4 is usual with importance_sampling_level: sequence.",
    )
    epsilon_high: float | None = Field(
        default=None,
        gt=0,
        le=1e6,
        description="Ratios above 1 + epsilon_high are clipped; null means as much as `epsilon`.",
    )
    delta: float | None = Field(
        default=None,
        gt=0,
        le=1e6,
        description="The ratio is capped at this number, above 1 + epsilon_high, where the advantage is negative; "
        "null means no cap there.",
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
        """Return the smaller of ratio times advantage and clipped ratio times advantage."""
        inside = ratio.clamp(*self.bounds())
        free = ratio if self.delta is None else ratio.clamp(max=self.delta)
        return (free * advantages).minimum(inside * advantages)

    def bounds(self) -> tuple[float, float]:
        """Return 1 - epsilon and 1 + epsilon_high."""
        return 1 - self.epsilon, 1 + (self.epsilon if self.epsilon_high is None else self.epsilon_high)


class Dapo(Clipped):
    """DAPO is the mean over all tokens of the batch."""

    name: ClassVar[str] = "dapo"
    paper: ClassVar[str] = "arXiv:2503.14476"
    divisor: ClassVar[Divisor] = "tokens"


class Bnpo(Clipped):
    """BNPO is TRL's name for the mean over tokens, and does the same as `dapo` here.

    TRL divides by the tokens of each micro-batch, so that its gradient depends on how the batch was cut.
    """

    name: ClassVar[str] = "bnpo"
    paper: ClassVar[str] = "TRL"
    divisor: ClassVar[Divisor] = "tokens"


class Grpo(Clipped):
    """GRPO is the mean over tokens of each rollout, then over rollouts; with ratios of sequences it is GSPO."""

    name: ClassVar[str] = "grpo"
    paper: ClassVar[str] = "arXiv:2402.03300"
    divisor: ClassVar[Divisor] = "rollouts"


class DrGrpo(Clipped):
    """Dr. GRPO divides all rollouts by the same number, so that length is no bias; set `scale_rewards: none` too."""

    name: ClassVar[str] = "dr_grpo"
    paper: ClassVar[str] = "arXiv:2503.20783"
    divisor: ClassVar[Divisor] = "length"
