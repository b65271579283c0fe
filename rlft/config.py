"""Every setting, on one page. Strict and frozen: an unknown key, a wrong type or an impossible pair is an error.

Names are TRL's where TRL has one. Importable without torch, so that a config is checked before anything is loaded.
"""

from __future__ import annotations

from typing import Any, Literal, Self
from urllib.parse import urlsplit

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
    pieces: list[str] = Field(default=[], description="Longer texts that are one token too, such as parts of a call.")
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
    chat_template: str | None = Field(
        default=None,
        description="qwen3, llama3, mistral, gemma, chatml or a file; null: the model's, if it keeps earlier turns.",
    )
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


def _changed(section: Section, *names: str) -> dict[str, Any]:
    """Those of the settings that differ from their defaults."""
    fields = type(section).model_fields
    return {name: getattr(section, name) for name in names if getattr(section, name) != fields[name].default}


class VllmSettings(Section):
    """vLLM in the process; it holds its own copy of the weights."""

    max_model_len: int | None = Field(default=None, ge=2, description="Prompt and completion; null: the context.")
    cache_gib: float = Field(default=1.0, gt=0, description="Keys and values on a CPU, GiB.")
    gpu_memory_utilization: float = Field(
        default=0.4,
        gt=0,
        lt=1,
        description="Share of a GPU's memory for vLLM, weights and cache; training has the rest.",
    )
    sleep: bool = Field(
        default=False, description="Give the GPU's memory back after sampling; a round then waits for the weights."
    )


class ServerSettings(Section):
    """Running `vllm serve` processes that see this machine's files (`rlft serve-engine` starts one)."""

    addresses: list[str] = Field(default=[], description="Such as http://127.0.0.1:8000; the rollouts are shared out.")
    concurrency: int = Field(default=64, ge=1, description="Requests at the same time to each.")
    timeout_seconds: float = Field(default=600.0, gt=0, description="For one request.")
    attempts: int = Field(default=3, ge=1, description="For one request, before its rollout is an error.")


class EngineSettings(Section):
    """What samples, and how its weights are checked."""

    engine: Literal["auto", "transformers", "vllm", "vllm_server"] = Field(
        default="auto", description="auto: vllm on a GPU where it is installed, else transformers."
    )
    max_logprob_difference: float | None = Field(
        default=None, gt=0, description="Engine and trainer, canary tokens, nats; null: by the type of the weights."
    )
    vllm: VllmSettings = VllmSettings()
    server: ServerSettings = ServerSettings()

    @model_validator(mode="after")
    def _servers_have_addresses(self) -> Self:
        seen: set[str] = set()
        for address in self.server.addresses:
            try:
                parts = urlsplit(address)
                is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
            except ValueError:  # brackets or a port that make no sense
                is_one = False
            if not is_one or address.rstrip("/") in seen:
                what = "stands twice" if is_one else "is no address such as http://127.0.0.1:8000"
                raise ValueError(f"server.addresses: {address!r} {what}")
            seen.add(address.rstrip("/"))
        return self

    @model_validator(mode="after")
    def _a_server_is_named(self) -> Self:
        if self.engine == "vllm_server" and not self.server.addresses:
            raise ValueError(
                "engine vllm_server needs server.addresses, such as [http://127.0.0.1:8000]; `rlft serve-engine "
                "CONFIG` starts a server there"
            )
        return self


class RolloutConfig(EngineSettings):
    """How rollouts are sampled."""

    max_completion_length: int = Field(default=256, ge=1, description="Tokens.")
    temperature: float = Field(default=1.0, gt=0)
    batch_size: int = Field(default=256, ge=1, description="Rollouts sampled at the same time.")
    top_p: float = Field(default=1.0, description="Only 1: see evaluation.top_p.")
    top_k: int = Field(default=0, description="Only 0: see evaluation.top_k.")
    min_p: float = Field(default=0.0, description="Only 0: see evaluation.min_p.")

    def engine_settings(self) -> EngineSettings:
        """Those of the settings that are about the engine."""
        return EngineSettings(**{name: getattr(self, name) for name in EngineSettings.model_fields})

    @model_validator(mode="after")
    def _samples_the_policy_itself(self) -> Self:
        for name, value in _changed(self, "top_p", "top_k", "min_p").items():
            raise ValueError(
                f"{name}={value}: truncated sampling is for evaluation; remove it here and set evaluation.{name} "
                "(training needs samples of the whole distribution whose probabilities it changes)"
            )
        return self


class HarnessConfig(Section):
    """The conversation between policy and environment, and what one rollout may take."""

    max_turns: int | None = Field(
        default=None, ge=1, description="Of the model; null: what the environment says, or 8 with tools and 1 without."
    )
    max_tool_calls: int = Field(default=32, ge=0, description="Of one rollout; more are answered with an error.")
    max_tokens: int | None = Field(
        default=None, ge=1, description="After the prompt, before another turn begins; null: what the context holds."
    )
    tool_timeout_seconds: float = Field(default=30.0, gt=0, description="For one call.")
    timeout_seconds: float = Field(default=1800.0, gt=0, description="Of one rollout, before another turn begins.")
    max_tool_characters: int = Field(default=20_000, ge=1, description="Of one result; longer ones are cut.")
    lockstep: bool = Field(
        default=False, description="All tools of a turn end before the next: slower, but the same bytes every time."
    )
    tool_format: Literal["auto", "hermes", "llama3", "mistral", "declared"] = Field(
        default="auto", description="How calls are written; auto: as the tokenizer or its chat template says."
    )


class TrainingConfig(Section):
    """Rounds of GRPO."""

    rounds: int = Field(default=20, ge=1)
    tasks_per_round: int = Field(default=32, ge=1)
    num_generations: int = Field(default=8, description="Rollouts per task: the group.")
    updates_per_round: int = Field(
        default=1, ge=1, description="Optimizer steps a round; the rollouts of every group are dealt out to them."
    )
    learning_rate: float = Field(default=1e-6, gt=0)
    warmup_updates: int = Field(default=0, ge=0)
    lr_scheduler_type: Literal["constant", "linear", "cosine"] = Field(
        default="constant", description="How the rate goes on after the warm-up: as it is, or to 0 at the last round."
    )
    weight_decay: float = Field(default=0.0, ge=0)
    adam_beta1: float = Field(default=0.9, ge=0, lt=1)
    adam_beta2: float = Field(default=0.999, ge=0, lt=1)
    max_grad_norm: float = Field(default=1.0, gt=0)
    num_iterations: int = Field(default=1, ge=1, description="Passes over the rollouts of a round.")
    loss_type: Literal["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo"] = "dapo"
    advantage: Literal["group_mean", "leave_one_out"] = Field(
        default="group_mean",
        description="What a reward is compared with; leave_one_out (RLOO) needs `scale_rewards: none`.",
    )
    scale_rewards: Literal["group", "batch", "none"] = "group"
    epsilon: float = Field(
        default=0.2, gt=0, lt=1, description="Ratios are clipped below 1 - epsilon; some 3e-4 for sequences."
    )
    epsilon_high: float | None = Field(
        default=None, gt=0, description="And above 1 + this; null means `epsilon`. cispo: the cap itself, such as 5.0."
    )
    delta: float | None = Field(
        default=None, gt=0, description="Cap of the ratio where the advantage is negative; null for none."
    )
    importance_sampling_level: Literal["token", "sequence"] = Field(
        default="token", description="Of the ratio to the old policy; sequence with `loss_type: grpo` is GSPO."
    )
    sapo_temperature_pos: float = Field(default=1.0, gt=0, description="sapo: where the advantage is positive.")
    sapo_temperature_neg: float = Field(default=1.05, gt=0, description="sapo: where it is not.")
    beta: float = Field(
        default=0.0, ge=0, description="Weight of the KL to the reference policy; 0 keeps no reference."
    )
    kl_importance_weighted: bool = Field(
        default=False, description="Weigh the KL by the ratio, which makes its gradient unbiased."
    )
    importance_sampling_correction: (
        Literal["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"] | None
    ) = Field(default=None, description="How the ratio of trainer and engine weighs a sample; null: it does not.")
    importance_sampling_min: float | None = Field(default=None, gt=0, description="Its floor; null for none.")
    importance_sampling_max: float | None = Field(default=3.0, gt=0, description="Its cap; null for none.")
    mask_truncated_completions: bool = False
    per_step_token_budget: int | None = Field(
        default=None, ge=1, description="Tokens encoded at the same time; null: 16,384, on a CPU as few as 3,072."
    )
    gradient_checkpointing: bool = Field(
        default=False, description="Compute layers again in the backward pass: a third more time, much less memory."
    )
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
            for name, value in _changed(self, *names).items():
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


class EvaluationConfig(Section):
    """Validation during training and the comparison at the end."""

    metric: Literal["accuracy", "reward"] = Field(
        default="accuracy", description="What counts: solved, or the mean reward."
    )
    num_generations: int = Field(default=1, ge=1, description="Samples per task; several need temperature above 0.")
    temperature: float = Field(default=0.0, ge=0, description="0 is greedy.")
    top_p: float = Field(
        default=1.0, gt=0, le=1, description="Sample among the likeliest tokens that together have this probability."
    )
    top_k: int = Field(default=0, ge=0, description="Sample among this many likeliest tokens; 0: among all.")
    min_p: float = Field(
        default=0.0, ge=0, lt=1, description="Sample among tokens at least this fraction as likely as the likeliest."
    )
    validate_every: int = Field(default=5, ge=1, description="Rounds between validations.")
    patience: int = Field(default=0, ge=0, description="Validations without a new best before training ends; 0: never.")
    sft_control: bool = Field(
        default=True, description="Also train SFT for the same seconds, to see if that does as well."
    )
    resamples: int = Field(default=10_000, ge=100, description="Bootstrap resamples of an interval.")

    @model_validator(mode="after")
    def _samples_among_several(self) -> Self:
        for name, value in _changed(self, "top_p", "top_k", "min_p").items():
            if self.temperature == 0:
                raise ValueError(
                    f"{name}={value} does nothing with temperature 0, which always takes the likeliest token; "
                    f"set temperature, or remove {name}"
                )
        return self


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
    harness: HarnessConfig = HarnessConfig()
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
