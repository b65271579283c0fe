"""The algorithms that are shipped, by name: each is one class in one file, with its settings, defaults and paper.

Every class with a `name` in a file of this room can be chosen by `training.algorithm`; its fields are settings of
`training`, and docs/guide/settings.md lists it. The config imports the files, and is checked without torch: so they
import what trains where they use it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rlft.types.declared import Declared, shipped

if TYPE_CHECKING:
    from rlft.config.training import TrainingConfig
    from rlft.models.live import Policy
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
        title: What reports call it.
        data: `attempts` of the policy's own at tasks, in rounds: then `training.algorithm` names it. `demonstrations`
            are shown without rounds (`rlft.training.imitation`).
        defaults: Settings of `training` that have another default with this algorithm.
        unused: Settings of `training` that do nothing with it, and are refused.
        loss_types: The values that `training.loss_type` has with it; empty for those of `rlft.training.losses`, and
            users' own.
        paths: Its settings that name files.
        whole_groups: Whether the attempts of a group must be in one part, as a loss is not a sum over attempts.
        metrics: What its loss reports beside itself, as `LossReport.sums`.
    """

    title: ClassVar[str]
    data: ClassVar[Data] = "attempts"
    defaults: ClassVar[dict[str, Any]] = {}
    unused: ClassVar[tuple[str, ...]] = ()
    loss_types: ClassVar[tuple[str, ...]] = ()
    paths: ClassVar[tuple[str, ...]] = ()
    whole_groups: ClassVar[bool] = False
    metrics: ClassVar[tuple[str, ...]] = ()

    def check(self, settings: TrainingConfig) -> None:
        """Raise ValueError for settings that do not fit together with it."""

    def check_files(self) -> None:
        """Raise TaskError for a file that is not there, or whose first rows cannot be read."""

    def plan(
        self, rollouts: Rollouts, rewards: Rewards, settings: TrainingConfig, policy: Policy, round: int
    ) -> TrainingPlan:
        """Return the groups that `policy` is trained on, each attempt with its advantage, and the fates of the others.

        `round` counts from 0.
        """
        del policy, round
        from rlft.training.ledger import plan_of_chosen

        return plan_of_chosen(rollouts, rewards, self.choose(rollouts, rewards, settings))

    def choose(self, rollouts: Rollouts, rewards: Rewards, settings: TrainingConfig) -> Mapping[str, float]:
        """Return {rollout id: advantage} of the attempts that are trained on, unless they failed.

        They are all that have tokens, but for those cut off that `mask_truncated_completions` leaves out, unless a
        class says otherwise.
        """
        del rewards
        leaves_out = settings.mask_truncated_completions
        whole = (each for each in rollouts if each.loss_mask.any() and not (leaves_out and each.truncated))
        return {rollout.rollout_id: 0.0 for rollout in whole}

    @abstractmethod
    def loss(self, settings: TrainingConfig) -> PartLoss:
        """Return what computes the loss of a part of an update. Raises as `rlft.training.chosen_loss` does."""


ALGORITHMS: dict[str, type[Algorithm]] = shipped(__name__, Algorithm)


def chosen_algorithm(settings: TrainingConfig) -> Algorithm:
    """Return the algorithm that `training.algorithm` names, with its settings."""
    kind = ALGORITHMS[settings.algorithm]
    return kind(**{name: getattr(settings, name) for name in kind.model_fields})


def learnt_by(config: Mapping[str, Any]) -> str:
    """Return what reports call the algorithm of a stored config, which is GRPO's where it names none."""
    return ALGORITHMS[config.get("training", {}).get("algorithm", "grpo")].title
