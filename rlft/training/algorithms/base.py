"""The base class of algorithms: how a policy learns from attempts that were sampled and scored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rlft.losses import Declared

if TYPE_CHECKING:
    from rlft.config import TrainingConfig
    from rlft.training.ledger import TrainingPlan
    from rlft.training.loss import LossReport, Part, Whole
    from rlft.types import Rewards, Rollouts

Data = Literal["attempts", "demonstrations"]
PartLoss = Callable[["Part", "Whole"], "LossReport"]
"""Returns the loss of a part of an update; the losses of the parts add up to that of the update."""
ADVANTAGES = ("advantage", "scale_rewards")
RATIOS = ("importance_sampling_level", "importance_sampling_correction", "kl_importance_weighted", "loss_kwargs")
"""Settings of `training` that do nothing where rewards make no advantages, and a loss has no ratio of probabilities."""


class Algorithm(Declared, ABC):
    """Defines an algorithm: which attempts it learns from, and by which loss.

    `rlft.training.trainer` does what is common to all: it deals attempts out to updates and parts, reads them with the
    policy and, with `training.beta` above 0, with the reference, takes the steps and reports what became of each.

    Attributes:
        data: `attempts` of the policy's own at tasks, in rounds: then `training.algorithm` names it. `demonstrations`
            are shown without rounds (`rlft.training.imitation`).
        defaults: Settings of `training` that have another default with this algorithm.
        unused: Settings of `training` that do nothing with it, and are refused.
    """

    data: ClassVar[Data] = "attempts"
    defaults: ClassVar[dict[str, Any]] = {}
    unused: ClassVar[tuple[str, ...]] = ()

    def plan(self, rollouts: Rollouts, rewards: Rewards, settings: TrainingConfig) -> TrainingPlan:
        """Return the groups of attempts that are trained on, each with its advantage, and the fates of the others."""
        from rlft.training.ledger import plan_of_chosen

        return plan_of_chosen(rollouts, rewards, self.choose(rollouts, rewards, settings))

    def choose(self, rollouts: Rollouts, rewards: Rewards, settings: TrainingConfig) -> Mapping[str, float]:
        """Return {rollout id: advantage} of the attempts that are trained on: all, unless a class says otherwise."""
        del rewards, settings
        return {rollout.rollout_id: 0.0 for rollout in rollouts}

    @abstractmethod
    def loss(self, settings: TrainingConfig) -> PartLoss:
        """Return what computes the loss of a part of an update. Raises as `rlft.training.chosen_loss` does."""
