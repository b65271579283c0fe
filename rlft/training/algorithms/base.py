"""The base class of algorithms: how a policy learns from attempts that were sampled and scored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from rlft.losses import Declared

if TYPE_CHECKING:
    from rlft.config import TrainingConfig
    from rlft.training.ledger import TrainingPlan
    from rlft.training.loss import LossReport, Part, Whole
    from rlft.types import Rewards, Rollouts

PartLoss = Callable[["Part", "Whole"], "LossReport"]
"""Returns the loss of a part of an update; the losses of the parts add up to that of the update."""


class Algorithm(Declared, ABC):
    """Defines an algorithm, which `training.algorithm` names: which attempts it learns from, and by which loss.

    `rlft.training.trainer` does what is common to all: it deals attempts out to updates and parts, reads them with the
    policy and, with `training.beta` above 0, with the reference, takes the steps and reports what became of each.

    Attributes:
        defaults: Settings of `training` that have another default with this algorithm.
        unused: Settings of `training` that do nothing with it, and are refused.
    """

    defaults: ClassVar[dict[str, Any]] = {}
    unused: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def plan(self, rollouts: Rollouts, rewards: Rewards, settings: TrainingConfig) -> TrainingPlan:
        """Return the groups of attempts that are trained on, each with its advantage, and the fates of the others."""

    @abstractmethod
    def loss(self, settings: TrainingConfig) -> PartLoss:
        """Return what computes the loss of a part of an update. Raises as `rlft.training.chosen_loss` does."""
