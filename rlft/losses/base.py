"""The base class of losses. A loss is one class that has its objective, settings with defaults, divisor and paper."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from torch import Tensor

Divisor = Literal["tokens", "rollouts", "length"]


class Loss(BaseModel, ABC):
    """Defines a loss. The fields of a class are the loss's settings, its docstring's first line says what it is.

    `rlft.training.loss` adds what is common to all of them: the level of the importance ratio (token or sequence), the
    KL to the reference and the correction for the engine's log-probabilities.

    Attributes:
        name: The value of `training.loss_type` for a shipped loss; a user's own is named by its import path.
        paper: Where the loss was published.
        divisor: What the sum over tokens is divided by. `tokens`: the tokens of the batch. `rollouts`: each rollout's
            own tokens, then the rollouts of the batch, so that it is a mean of means. `length`: the rollouts of the
            batch times `rollout.max_completion_length`.
        example: Values of the settings that must be given, with which the tests try a shipped loss.
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
    example: ClassVar[dict[str, Any]] = {}

    @abstractmethod
    def objective(self, ratio: Tensor, advantages: Tensor, logprobs: Tensor) -> Tensor:
        """Return what each token adds to the objective, which is maximised: float, of the arguments' broadcast shape.

        Args:
            ratio: Float [rollouts, tokens] or, at sequence level, [rollouts, 1]: new over old probability, with the
                gradient of `logprobs`.
            advantages: Float [rollouts, tokens] or [rollouts, 1], without gradient.
            logprobs: Float [rollouts, tokens], of the policy that is trained.
        """

    def bounds(self) -> tuple[float, float]:
        """Return the lower and upper ratio beyond which a token counts as clipped in the metrics.

        Below the first it counts where the advantage is negative, above the second where it is positive. With 0 and
        infinity, the default, no token counts.
        """
        return 0.0, math.inf
