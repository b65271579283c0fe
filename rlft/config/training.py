"""Rounds of GRPO. Names are TRL's where TRL has one."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from rlft.config.loss import LossConfig
from rlft.config.section import Section

Baseline = Literal["group_mean", "leave_one_out"]
Scale = Literal["group", "batch", "none"]


class RoundsConfig(Section):
    """How rounds go, and the optimizer."""

    rounds: int = Field(default=20, ge=1, description="A round samples, scores and trains once.")
    tasks_per_round: int = Field(default=32, ge=1, description="Tasks that are attempted in a round.")
    num_generations: int = Field(default=8, description="Rollouts per task, which form a group; at least 2.")
    updates_per_round: int = Field(
        default=1, ge=1, description="Optimizer steps per round; the rollouts of every group are dealt out to them."
    )
    learning_rate: float = Field(default=1e-6, gt=0)
    warmup_updates: int = Field(default=0, ge=0, description="Optimizer steps over which the learning rate rises.")
    lr_scheduler_type: Literal["constant", "linear", "cosine"] = Field(
        default="constant",
        description="The learning rate after its warm-up: it stays, or falls to 0 at the last round.",
    )
    weight_decay: float = Field(default=0.0, ge=0)
    adam_beta1: float = Field(default=0.9, ge=0, lt=1)
    adam_beta2: float = Field(default=0.999, ge=0, lt=1)
    max_grad_norm: float = Field(default=1.0, gt=0, description="A gradient with a larger norm is scaled down to it.")
    num_iterations: int = Field(default=1, ge=1, description="Passes over the rollouts of a round.")
    advantage: Baseline = Field(
        default="group_mean",
        description="What a reward is compared with: the mean of its group, or of the others in its group (RLOO, which "
        "needs `scale_rewards: none`).",
    )
    scale_rewards: Scale = Field(default="group", description="Which standard deviation advantages are divided by.")
    mask_truncated_completions: bool = Field(
        default=False, description="Rollouts that a limit cut off are not trained on; they count in their group's mean."
    )
    per_step_token_budget: int | None = Field(
        default=None, ge=1, description="Tokens encoded at once; null: 16,384 on a GPU, as few as 3,072 on a CPU."
    )
    gradient_checkpointing: bool = Field(
        default=False, description="Save memory by computing layers twice, which takes longer."
    )
    max_kl: float = Field(
        default=0.25,
        gt=0,
        description="How far an update may move the policy from the one that sampled, in nats per token. Beyond it the "
        "round is undone and training stops.",
    )

    @model_validator(mode="after")
    def _groups_can_be_compared(self) -> Self:
        if self.num_generations < 2:
            raise ValueError(
                f"num_generations={self.num_generations} has no group to compare with; use at least 2 "
                "(8 or 16 are usual)"
            )
        if self.updates_per_round > self.tasks_per_round:
            raise ValueError(
                f"updates_per_round={self.updates_per_round} exceeds tasks_per_round={self.tasks_per_round}: "
                "an update needs at least as many rollouts as a group has; lower updates_per_round"
            )
        if self.advantage == "leave_one_out" and self.scale_rewards != "none":
            raise ValueError(
                f"advantage leave_one_out is not divided by a standard deviation, scale_rewards={self.scale_rewards} "
                "would be; set scale_rewards to none, or advantage to group_mean"
            )
        return self


class TrainingConfig(LossConfig, RoundsConfig):
    """Rounds of GRPO."""
