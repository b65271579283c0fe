"""The model that is trained, and what it begins with."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from rlft.config.names import check_name
from rlft.config.section import Section


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

    @field_validator("revision")
    @classmethod
    def _is_a_name(cls, revision: str | None) -> str | None:
        return revision if revision is None else check_name(revision, slashes=True)

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
