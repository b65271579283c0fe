"""The losses that are shipped, by name; a file holds one loss, or all those with the same objective.

Every class with a `name` in a file of this room can be chosen by `training.loss_type`, its fields are settings of
`training`, and docs/guide/settings.md lists it. The files import torch for type checkers only, because the config
imports them, and a config is checked without torch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

from rlft.types.declared import Declared, shipped

if TYPE_CHECKING:
    from torch import Tensor

Divisor = Literal["tokens", "rollouts", "length"]


class Loss(Declared, ABC):
    """Defines a loss, which `training.loss_type` names, one of a user's own by its import path.

    `rlft.training.loss` adds what is common to all of them: the level of the importance ratio (token or sequence), the
    KL to the reference and the correction for the engine's log-probabilities.

    Attributes:
        divisor: What the sum over tokens is divided by. `tokens`: the tokens of the batch. `rollouts`: each rollout's
            own tokens, then the rollouts of the batch, so that it is a mean of means. `length`: the rollouts of the
            batch times `rollout.max_completion_length`.
    """

    divisor: ClassVar[Divisor]

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


LOSSES: dict[str, type[Loss]] = shipped(__name__, Loss)
