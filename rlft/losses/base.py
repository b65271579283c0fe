"""What a loss is: its objective, its settings with their defaults, its divisor and its paper, in one class."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from torch import Tensor

Divisor = Literal["tokens", "rollouts", "length"]


class Loss(BaseModel, ABC):
    """Base of all losses. The fields of a class are the loss's settings, its docstring's first line says what it is.

    What is common to all losses is not written here: the ratio's level, the KL to the reference and the correction for
    the engine (`rlft.training.loss`).

    Attributes:
        name: What `training.loss_type` calls a loss of this room; one's own is called by its import path.
        paper: Where it is from.
        divisor: What the sum over tokens is divided by. `tokens`: the tokens of the batch. `rollouts`: each rollout's
            own tokens, then the rollouts of the batch, so that it is a mean of means. `length`: the rollouts of the
            batch times `rollout.max_completion_length`.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        hide_input_in_errors=True,
    )

    name: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    divisor: ClassVar[Divisor]

    @abstractmethod
    def objective(self, ratio: Tensor, advantages: Tensor, logprobs: Tensor) -> Tensor:
        """What each token adds, to be maximised: float, of the shape that the arguments have together.

        Args:
            ratio: Float [rollouts, tokens] or, at sequence level, [rollouts, 1]: new over old probability, with the
                gradient of `logprobs`.
            advantages: Float [rollouts, tokens] or [rollouts, 1], without gradient.
            logprobs: Float [rollouts, tokens], of the policy that is trained.
        """

    def bounds(self) -> tuple[float, float]:
        """The ratios beyond which a token counts as clipped in the metrics; 0 and infinity: none does.

        Below the first it counts where the advantage is negative, above the second where it is positive.
        """
        return 0.0, math.inf
