"""Rounds of GRPO. Names are TRL's where TRL has one."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from rlft.config.section import Section, changed


class TrainingConfig(Section):
    """Rounds of GRPO."""

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
    loss_type: Literal["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo"] = Field(
        default="dapo", description="See docs/guide/training.md."
    )
    advantage: Literal["group_mean", "leave_one_out"] = Field(
        default="group_mean",
        description="What a reward is compared with: the mean of its group, or of the others in its group (RLOO, which "
        "needs `scale_rewards: none`).",
    )
    scale_rewards: Literal["group", "batch", "none"] = Field(
        default="group", description="Which standard deviation advantages are divided by."
    )
    epsilon: float = Field(
        default=0.2,
        gt=0,
        lt=1,
        description="Ratios below 1 - epsilon are clipped; 3e-4 is usual for those of sequences.",
    )
    epsilon_high: float | None = Field(
        default=None,
        gt=0,
        description="Ratios above 1 + epsilon_high are clipped; null: `epsilon`. With cispo it is the cap itself: 5.0.",
    )
    delta: float | None = Field(
        default=None, gt=0, description="Cap of the ratio where the advantage is negative; null: none."
    )
    importance_sampling_level: Literal["token", "sequence"] = Field(
        default="token", description="One ratio per token or per rollout; sequence with `loss_type: grpo` is GSPO."
    )
    sapo_temperature_pos: float = Field(default=1.0, gt=0, description="sapo: temperature of positive advantages.")
    sapo_temperature_neg: float = Field(default=1.05, gt=0, description="sapo: temperature of the others.")
    beta: float = Field(
        default=0.0, ge=0, description="Weight of the KL to the reference policy; 0: no reference is kept."
    )
    kl_importance_weighted: bool = Field(
        default=False, description="Weigh the KL by the importance ratio, which makes its gradient unbiased."
    )
    importance_sampling_correction: (
        Literal["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"] | None
    ) = Field(
        default=None,
        description="How the ratio of the trainer's probability to the engine's weighs a sample; null: not at all.",
    )
    importance_sampling_min: float | None = Field(default=None, gt=0, description="Floor of that ratio; null: none.")
    importance_sampling_max: float | None = Field(default=3.0, gt=0, description="Cap of that ratio; null: none.")
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

    @model_validator(mode="after")
    def _every_setting_has_an_effect(self) -> Self:
        unused: list[tuple[str, tuple[str, ...]]] = []
        if self.loss_type == "cispo":
            unused.append(("loss_type cispo", ("epsilon", "delta")))
        if self.loss_type == "sapo":
            unused.append(("loss_type sapo", ("epsilon", "epsilon_high", "delta")))
        else:
            unused.append((f"loss_type {self.loss_type}", ("sapo_temperature_pos", "sapo_temperature_neg")))
        if self.beta == 0:
            unused.append(("beta 0", ("kl_importance_weighted",)))
        if self.importance_sampling_correction is None:
            unused.append(
                ("importance_sampling_correction null", ("importance_sampling_min", "importance_sampling_max"))
            )
        for reason, names in unused:
            for name, value in changed(self, *names).items():
                default = type(self).model_fields[name].default
                default = "null" if default is None else default
                raise ValueError(f"{name}={value} does nothing with {reason}; leave it at its default, {default}")
        return self

    @model_validator(mode="after")
    def _clips_what_it_can(self) -> Self:
        if self.loss_type == "cispo" and (self.epsilon_high is None or self.epsilon_high < 1):
            raise ValueError(
                f"epsilon_high={self.epsilon_high}: for cispo it is the cap of the ratio itself, and must be given, "
                "1 or more; 5.0 is usual"
            )
        if self.loss_type != "cispo" and (self.epsilon_high or 0) >= 1:
            raise ValueError(
                f"epsilon_high={self.epsilon_high} is added to 1, so {self.loss_type} would hardly clip; 0.28 is usual "
                "(only for cispo it is the cap itself)"
            )
        if self.delta is not None and self.delta <= 1 + (self.epsilon_high or self.epsilon):
            raise ValueError(
                f"delta={self.delta} must be above 1 + epsilon_high (null: epsilon), where good advantages are "
                "clipped already; 4 is usual, or remove delta"
            )
        return self

    @model_validator(mode="after")
    def _corrects_within_bounds(self) -> Self:
        low, high = self.importance_sampling_min, self.importance_sampling_max
        if low is None and high is None:
            raise ValueError(
                "importance_sampling_min and importance_sampling_max are both null, so that nothing is truncated or "
                "masked: give one of them"
            )
        if (low is not None and low >= 1) or (high is not None and high <= 1):
            raise ValueError(
                f"importance_sampling_min={low} must be below 1 and importance_sampling_max={high} above: where engine "
                "and trainer agree the ratio is 1"
            )
        return self
