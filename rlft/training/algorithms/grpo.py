"""GRPO and its family: DAPO, Dr. GRPO, GSPO, CISPO, SAPO and RLOO differ in settings and losses."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rlft.training.algorithms import Algorithm, PartLoss

if TYPE_CHECKING:
    from rlft.config.training import TrainingConfig
    from rlft.models.live import Policy
    from rlft.training.ledger import TrainingPlan
    from rlft.training.loss import LossReport, Part, Whole
    from rlft.types import Rewards, Rollouts


class Grpo(Algorithm):
    """GRPO compares the attempts at a task with each other, and makes those with a higher reward likelier."""

    name: ClassVar[str] = "grpo"
    title: ClassVar[str] = "reinforcement learning (GRPO)"
    paper: ClassVar[str] = "arXiv:2402.03300"

    def plan(
        self, rollouts: Rollouts, rewards: Rewards, settings: TrainingConfig, policy: Policy, round: int
    ) -> TrainingPlan:
        """Return the groups with their advantages (`rlft.training.ledger.plan_training`)."""
        del policy, round
        from rlft.training.ledger import plan_training

        return plan_training(
            rollouts,
            rewards,
            scale=settings.scale_rewards,
            mask_truncated_completions=settings.mask_truncated_completions,
            baseline=settings.advantage,
            with_kl=settings.beta > 0,
            replaced=settings.max_num_gen_batches > 1,
        )

    def loss(self, settings: TrainingConfig) -> PartLoss:
        """Return the loss that `training.loss_type` names, with the terms that are common to all of them."""
        from rlft.training.chosen_loss import chosen_loss
        from rlft.training.loss import policy_loss

        chosen = chosen_loss(settings)

        def loss(part: Part, whole: Whole) -> LossReport:
            return policy_loss(part, whole, chosen, settings)

        return loss
