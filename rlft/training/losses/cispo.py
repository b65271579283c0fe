"""The CISPO loss, which caps the importance ratio instead of clipping it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, model_validator

from rlft.training.losses import Divisor, Loss

if TYPE_CHECKING:
    from torch import Tensor


class Cispo(Loss):
    """CISPO caps the ratio, so that no token loses its gradient.

    The objective is min(ratio, epsilon_high) * A * log pi, in which the ratio has no gradient (MiniMax-M1). Its value
    means little, as it holds a log-probability; its gradient by `logprobs` is the capped ratio times A. A cap of 5 is
    usual (ScaleRL, arXiv:2510.13786).
    """

    name: ClassVar[str] = "cispo"
    paper: ClassVar[str] = "arXiv:2506.13585"
    divisor: ClassVar[Divisor] = "tokens"
    example: ClassVar[dict[str, Any]] = {"epsilon_high": 5.0}

    epsilon_high: float | None = Field(
        default=None,
        gt=0,
        le=1e6,
        description="The ratio itself is capped at this number, which must be given and at least 1; 5.0 is usual.",
    )

    @model_validator(mode="after")
    def _has_a_cap(self) -> Self:
        if self.epsilon_high is None or self.epsilon_high < 1:
            raise ValueError(
                f"epsilon_high={self.epsilon_high}: for cispo it is the cap of the ratio itself, and must be given, "
                "1 or more; 5.0 is usual"
            )
        return self

    def objective(self, ratio: Tensor, advantages: Tensor, logprobs: Tensor) -> Tensor:
        """Return the log-probability, weighted by the capped ratio and the advantage."""
        return ratio.detach().clamp(max=self.bounds()[1]) * advantages * logprobs

    def bounds(self) -> tuple[float, float]:
        """Return 0, as nothing is clipped from below, and the cap."""
        assert self.epsilon_high is not None
        return 0.0, self.epsilon_high
