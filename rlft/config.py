"""Every setting, on one page. Strict and frozen: an unknown key, a wrong type or an impossible pair is an error.

Names are TRL's where TRL has one. Importable without torch, so that a config is checked before anything is loaded.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Section(BaseModel):
    """Base of all sections: no unknown keys, no silent conversion, no NaN or infinity, no change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, protected_namespaces=())


class SourceConfig(Section):
    """Where tasks come from, and which field of a row is what."""

    source: Literal["jsonl", "csv", "parquet", "huggingface", "reasoning_gym"]
    path: str | None = Field(
        default=None, description="File (jsonl, csv, parquet), or data set name or folder (huggingface)."
    )
    revision: str | None = Field(
        default=None, description="Commit or tag of a Hub data set; pin it for a repeatable run."
    )
    subset: str | None = Field(default=None, description="Configuration name of a Hub data set.")
    hub_split: str = Field(default="train", description="Which split of the Hub data set to read.")
    generator: str | None = Field(default=None, description="reasoning_gym: the generator's name, such as chain_sum.")
    generator_kwargs: dict[str, Any] = Field(default={}, description="reasoning_gym: arguments of the generator.")
    first_index: int = Field(default=0, ge=0, description="reasoning_gym: index of the first item.")
    prompt: str | None = Field(
        default=None,
        description="Field with the prompt (text or messages), or a template such as '{question}\\nAnswer:'.",
    )
    answer: str | None = Field(
        default=None, description="Field with the ground truth, or a template over the row's fields."
    )
    id: str | None = Field(default=None, description="Field with a unique id; otherwise ids are made from the content.")
    group: str | None = Field(
        default=None, description="Rows with the same value here never stand in different splits."
    )

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        if self.source == "reasoning_gym" and not self.generator:
            raise ValueError("source reasoning_gym needs `generator`, for example chain_sum")
        if self.source != "reasoning_gym" and not self.path:
            raise ValueError(f"source {self.source} needs `path`")
        return self


class SplitsConfig(Section):
    """How many tasks go to each split. Counts for generators; for files the rows are dealt in these proportions."""

    train: int = Field(default=2000, ge=1)
    validation: int = Field(default=100, ge=1, description="Looked at while training.")
    gate: int = Field(default=200, ge=1, description="Decides about promotion; looked at once.")
    test: int = Field(default=200, ge=1, description="Only reported.")


class TasksConfig(SourceConfig):
    """The tasks, their splits, and what may be wrong with them."""

    seed: int = Field(
        default=0, ge=0, description="Which tasks go where; apart from the run's seed, so that runs compare."
    )
    splits: SplitsConfig = SplitsConfig()
    max_bad_rows: int = Field(default=0, ge=0, description="Rows that may be unusable before the run stops.")
    off_distribution: SourceConfig | None = Field(default=None, description="Tasks of another kind, only reported.")
    off_distribution_count: int = Field(default=200, ge=1, description="How many of them.")


class EnvironmentConfig(Section):
    """The environment, by import path (`package.module:Class`) or file (`my_env.py:Class`)."""

    name: str = Field(pattern=r"^[^:]+:[A-Za-z_][A-Za-z_0-9]*$")
    kwargs: dict[str, Any] = {}


class RewardConfig(Section):
    """How the parts of a reward add up."""

    weights: dict[str, float] = Field(default={}, description="Weight of each part; parts not named here weigh 1.")
    timeout_seconds: float = Field(default=30.0, gt=0, description="A score that takes longer is an error, not a 0.")
    full: float | None = Field(
        default=None, description="A total this high counts as solved; default: all positive weights."
    )
    audit: bool = Field(default=True, description="Attack the reward with wrong answers before training.")


class LoraSettings(Section):
    """A low-rank adapter (arXiv:2106.09685); the base weights stay as they are."""

    rank: int = Field(default=16, ge=1)
    alpha: int = Field(default=32, ge=1)
    target_modules: str | list[str] = "all-linear"


class FromScratchConfig(Section):
    """A small model with random weights, for machines without a model."""

    architecture: Literal["qwen3", "llama", "gpt2"] = "qwen3"
    characters: str = Field(min_length=1, description="The characters of the tokenizer: one token each.")
    hidden_size: int = Field(default=128, ge=8)
    num_hidden_layers: int = Field(default=3, ge=1)
    num_attention_heads: int = Field(default=4, ge=1)
    intermediate_size: int = Field(default=384, ge=8)
    max_position_embeddings: int = Field(default=64, ge=8)

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if self.hidden_size % self.num_attention_heads:
            raise ValueError("hidden_size must be a multiple of num_attention_heads")
        if self.architecture != "gpt2" and self.hidden_size // self.num_attention_heads % 2:
            raise ValueError("hidden_size / num_attention_heads must be even: rotary positions turn pairs of numbers")
        return self


class KeepConfig(Section):
    """Which rounds keep their weights and optimizer state on disk; the first and the best always do."""

    last: int = Field(default=2, ge=1, description="How many of the newest rounds (resuming needs one).")
    every: int = Field(default=0, ge=0, description="Also every n-th round; 0 for none.")


class PolicyConfig(Section):
    """The model that is trained."""

    model: str | None = Field(default=None, description="Hub name or folder of a causal language model.")
    revision: str | None = Field(default=None, description="Commit or tag of the Hub model.")
    from_scratch: FromScratchConfig | None = None
    lora: LoraSettings | None = Field(default=None, description="Train an adapter; null trains all weights.")
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    keep: KeepConfig = KeepConfig()

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.model is None) == (self.from_scratch is None):
            raise ValueError("give either `model` (a hub name or folder) or `from_scratch`, not both and not neither")
        return self


class WarmStartConfig(Section):
    """Supervised fine-tuning on demonstrations before reinforcement learning."""

    demonstrations: int = Field(
        default=1000, ge=1, description="How many train tasks are shown with their gold answer."
    )
    path: str | None = Field(default=None, description="JSONL with `messages` instead of gold answers.")
    steps: int = Field(ge=1)
    batch_size: int = Field(default=64, ge=1)
    learning_rate: float = Field(default=1e-4, gt=0)
    warmup_steps: int = Field(default=20, ge=0)


class BaselineConfig(Section):
    """The look at the task before training: is it worth training at all?"""

    num_tasks: int = Field(default=100, ge=1, description="Validation tasks to try, at most.")
    num_generations: int = Field(default=8, ge=2)
    already_solved: float = Field(default=0.97, gt=0, le=1, description="avg@k from which training is pointless.")


class RolloutConfig(Section):
    """How rollouts are sampled."""

    engine: Literal["transformers"] = "transformers"
    max_completion_length: int = Field(default=256, ge=1, description="Tokens.")
    temperature: float = Field(default=1.0, gt=0)
    batch_size: int = Field(default=256, ge=1, description="Rollouts sampled at the same time.")


class TrainingConfig(Section):
    """Rounds of GRPO."""

    rounds: int = Field(default=20, ge=1)
    tasks_per_round: int = Field(default=32, ge=1)
    num_generations: int = Field(default=8, description="Rollouts per task: the group.")
    updates_per_round: int = Field(
        default=1, ge=1, description="Optimizer steps a round; its groups are split over them."
    )
    learning_rate: float = Field(default=1e-6, gt=0)
    warmup_updates: int = Field(default=0, ge=0)
    weight_decay: float = Field(default=0.0, ge=0)
    adam_beta1: float = Field(default=0.9, ge=0, lt=1)
    adam_beta2: float = Field(default=0.999, ge=0, lt=1)
    max_grad_norm: float = Field(default=1.0, gt=0)
    loss_type: Literal["grpo", "bnpo", "dr_grpo", "dapo"] = "dapo"
    scale_rewards: Literal["group", "batch", "none"] = "group"
    epsilon: float = Field(default=0.2, gt=0, lt=1)
    epsilon_high: float | None = Field(default=None, gt=0, description="null means `epsilon`.")
    beta: float = Field(
        default=0.0, ge=0, description="Weight of the KL to the reference policy; 0 keeps no reference."
    )
    mask_truncated_completions: bool = False
    per_step_token_budget: int = Field(default=16384, ge=1, description="Tokens in one forward pass, padding included.")
    max_kl: float = Field(default=10.0, gt=0, description="A round whose KL exceeds this is undone and training stops.")

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
                "an update needs at least one group; lower updates_per_round"
            )
        return self


class EvaluationConfig(Section):
    """Validation during training and the comparison at the end."""

    metric: Literal["accuracy", "reward"] = Field(
        default="accuracy", description="What counts: solved, or the mean reward."
    )
    num_generations: int = Field(default=1, ge=1, description="Samples per task; several need temperature above 0.")
    temperature: float = Field(default=0.0, ge=0, description="0 is greedy.")
    validate_every: int = Field(default=5, ge=1, description="Rounds between validations.")
    patience: int = Field(default=0, ge=0, description="Validations without a new best before training ends; 0: never.")
    sft_control: bool = Field(
        default=True, description="Also train SFT for the same seconds, to see if that does as well."
    )
    resamples: int = Field(default=10_000, ge=100, description="Bootstrap resamples of an interval.")


class PromotionConfig(Section):
    """When a trained policy becomes the champion."""

    name: str | None = Field(default=None, description="Name in the model registry; default: the run's name.")
    min_improvement: float = Field(default=0.0, ge=0, description="Each lower bound on `gate` must exceed this.")


class TrackingConfig(Section):
    """What is written to MLflow."""

    experiment: str | None = Field(default=None, description="MLflow experiment; default: the run's name.")
    trace_every: int = Field(default=10, ge=0, description="Rounds between traced rollouts; 0: no traces.")
    trace_rollouts: int = Field(default=16, ge=1, description="Rollouts that are traced in such a round.")


class Config(Section):
    """One experiment."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    seed: int = Field(default=0, ge=0)
    tasks: TasksConfig
    environment: EnvironmentConfig
    reward: RewardConfig = RewardConfig()
    policy: PolicyConfig
    warm_start: WarmStartConfig | None = None
    baseline: BaselineConfig = BaselineConfig()
    rollout: RolloutConfig = RolloutConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    promotion: PromotionConfig = PromotionConfig()
    tracking: TrackingConfig = TrackingConfig()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.evaluation.num_generations > 1 and self.evaluation.temperature == 0:
            raise ValueError(
                "evaluation.num_generations above 1 with temperature 0 samples the same answer again; "
                "set evaluation.temperature, or num_generations to 1"
            )
        scratch = self.policy.from_scratch
        if scratch and self.policy.lora:
            raise ValueError("policy.lora on random weights trains nothing useful; remove `lora` or name a `model`")
        if scratch and self.rollout.max_completion_length >= scratch.max_position_embeddings:
            raise ValueError(
                "rollout.max_completion_length leaves no room for the prompt: raise "
                "policy.from_scratch.max_position_embeddings or lower it"
            )
        if self.training.tasks_per_round > self.tasks.splits.train and self.tasks.source == "reasoning_gym":
            raise ValueError("training.tasks_per_round exceeds tasks.splits.train")
        return self
