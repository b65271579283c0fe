"""The section `training` of a config: the rounds, the optimizer and the advantages. Names are those of TRL."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from rlft.config.bounds import MOST
from rlft.config.loss import LossConfig
from rlft.config.section import Section

Baseline = Literal["group_mean", "leave_one_out"]
Scale = Literal["group", "batch", "none"]
Curriculum = Literal["uniform", "pass_rate"]


class PassRatesConfig(Section):
    """How the pass rates of tasks are estimated where tasks are drawn by them (`training.curriculum: pass_rate`)."""

    half_life: float = Field(
        default=20.0,
        gt=0,
        le=MOST,
        description="Rounds after which an attempt counts half, as the policy that made it is no longer the policy.",
    )
    retire_at: float = Field(
        default=0.9,
        gt=0.5,
        le=1,
        description="A task whose expected pass rate is at least this (0.5 to 1) is taken for solved and not drawn. It "
        "comes back when the attempts that showed it have lost their weight. 1 means that none is retired.",
    )


class RoundsConfig(Section):
    """Settings of the rounds, the optimizer and the advantages."""

    rounds: int = Field(
        default=20, ge=1, le=MOST, description="Number of rounds. A round samples, scores and trains once."
    )
    lag: Literal[0, 1] = Field(
        default=0,
        description="How many rounds of training the policy that samples a round is behind the one that is trained on "
        "it. With 1 each round is sampled while the one before it is trained on. The loss's ratio is then that to the "
        "policy before the round, and samples are not weighted unless importance_sampling_correction is set; see "
        "docs/guide/lag.md.",
    )
    tasks_per_round: int = Field(default=32, ge=1, le=MOST, description="Tasks that are attempted in each round.")
    curriculum: Curriculum = Field(
        default="uniform",
        description="How the tasks of a round are drawn: each as often as any other (`uniform`), or in proportion to "
        "the expected p (1 - p) of its pass rate p, so that those of middling difficulty come most (`pass_rate`).",
    )
    pass_rates: PassRatesConfig = PassRatesConfig()
    max_num_gen_batches: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Samplings in one round at most. Above 1, other tasks are sampled in place of those whose rewards "
        "are all equal, which teach nothing (DAPO's dynamic sampling, under verl's name). 1 means that none is "
        "replaced.",
    )
    num_generations: int = Field(
        default=8, le=10_000, description="Rollouts of each task, which form a group. At least 2."
    )
    updates_per_round: int = Field(
        default=1,
        ge=1,
        le=MOST,
        description="Optimizer steps in each pass over the rollouts of a round. The rollouts of every group are dealt "
        "out to them.",
    )
    learning_rate: float = Field(default=1e-6, gt=0, le=1000, description="Learning rate of AdamW after the warm-up.")
    warmup_updates: int = Field(
        default=0, ge=0, le=MOST, description="Optimizer steps over which the learning rate rises linearly from 0."
    )
    lr_scheduler_type: Literal["constant", "linear", "cosine"] = Field(
        default="constant",
        description="What the learning rate does after the warm-up: it stays (`constant`), or falls to 0 by the end "
        "of the last round.",
    )
    weight_decay: float = Field(default=0.0, ge=0, le=10, description="Weight decay of AdamW.")
    adam_beta1: float = Field(
        default=0.9, ge=0, lt=1, description="Decay rate of AdamW's mean of gradients (first moment)."
    )
    adam_beta2: float = Field(
        default=0.999, ge=0, lt=1, description="Decay rate of AdamW's mean of squared gradients (second moment)."
    )
    max_grad_norm: float = Field(
        default=1.0,
        gt=0,
        le=1e9,
        description="Largest norm of a gradient. One with a larger norm is scaled down to it.",
    )
    num_iterations: int = Field(default=1, ge=1, le=1000, description="Number of passes over the rollouts of a round.")
    advantage: Baseline = Field(
        default="group_mean",
        description="What a reward is compared with: the mean of its group (`group_mean`), or the mean of the others "
        "in its group (`leave_one_out`, as in RLOO, which needs `scale_rewards: none`).",
    )
    scale_rewards: Scale = Field(
        default="group",
        description="What advantages are divided by: the standard deviation of rewards in the `group`, that in the "
        "whole `batch`, or `none` (Dr. GRPO).",
    )
    mask_truncated_completions: bool = Field(
        default=False,
        description="Whether rollouts that a limit cut off are left out of training. They still count in their "
        "group's mean.",
    )
    per_step_token_budget: int | None = Field(
        default=None,
        ge=1,
        le=100 * MOST,
        description="Tokens that the trainer encodes at once. null means 16,384 on a GPU, and on a CPU 3,072, or as "
        "many as the largest group has up to 16,384.",
    )
    gradient_checkpointing: bool = Field(
        default=False, description="Whether layers are computed twice to save memory, which takes longer."
    )
    max_kl: float = Field(
        default=0.55,
        gt=0,
        le=1e9,
        description="Largest KL of the policy after an update to the one that sampled, or with a lag to the one before "
        "the round, in nats per token. Beyond it the round is undone and training stops.",
    )

    @model_validator(mode="after")
    def _groups_can_be_compared(self) -> Self:
        if self.num_generations < 2:
            raise ValueError(
                f"num_generations={self.num_generations} has no group to compare with; use at least 2 "
                "(8 or 16 are usual)"
            )
        if (rollouts := self.tasks_per_round * self.num_generations * self.max_num_gen_batches) > MOST:
            more = f" times max_num_gen_batches={self.max_num_gen_batches}" if self.max_num_gen_batches > 1 else ""
            raise ValueError(
                f"tasks_per_round={self.tasks_per_round} times num_generations={self.num_generations}{more} are "
                f"{rollouts:,} rollouts in each round; lower {'one of them' if more else 'either'}, {MOST:,} are the "
                "most"
            )
        if self.curriculum == "uniform" and self.pass_rates != PassRatesConfig():
            raise ValueError(
                "pass_rates do nothing with curriculum uniform; set curriculum to pass_rate, or remove pass_rates"
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
    """Settings of the training rounds (GRPO): the optimizer, the advantages, the loss."""

    def without_lag(self) -> TrainingConfig:
        """Return the settings of a round by itself, which does not depend on when it was sampled."""
        return self.model_copy(update={"lag": 0})
