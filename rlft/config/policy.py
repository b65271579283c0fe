"""The model that is trained, and what it begins with."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from rlft.config.names import check_name
from rlft.config.section import Section


class LoraSettings(Section):
    """Train a low-rank adapter (arXiv:2106.09685) and leave the base weights as they are."""

    rank: int = Field(default=16, ge=1)
    alpha: int = Field(default=32, ge=1, description="The adapter's output is multiplied by alpha / rank.")
    target_modules: str | list[str] = Field(default="all-linear", description="Which layers get an adapter.")


class FromScratchConfig(Section):
    """A small model with random weights, for trying things out without a download."""

    architecture: Literal["qwen3", "llama", "gpt2"] = "qwen3"
    characters: str = Field(min_length=1, description="The characters of the tokenizer: one token each.")
    pieces: list[str] = Field(default=[], description="Longer texts that are one token each, such as parts of a call.")
    hidden_size: int = Field(default=128, ge=8)
    num_hidden_layers: int = Field(default=3, ge=1)
    num_attention_heads: int = Field(default=4, ge=1)
    intermediate_size: int = Field(default=384, ge=8)
    max_position_embeddings: int = Field(default=64, ge=8, description="The context: prompt and completion, in tokens.")

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if self.hidden_size % self.num_attention_heads:
            raise ValueError("hidden_size must be a multiple of num_attention_heads")
        if self.architecture != "gpt2" and self.hidden_size // self.num_attention_heads % 2:
            raise ValueError("hidden_size / num_attention_heads must be even: rotary positions turn pairs of numbers")
        return self


class KeepConfig(Section):
    """Which rounds keep their weights and optimizer state on disk; the first and the best always do."""

    last: int = Field(default=2, ge=1, description="So many of the newest rounds keep them (resuming needs one).")
    every: int = Field(default=0, ge=0, description="Every n-th round keeps them too; 0 for none.")


class PolicyConfig(Section):
    """The model that is trained."""

    model: str | None = Field(default=None, description="Hugging Face Hub name, or folder, of a causal language model.")
    revision: str | None = Field(default=None, description="Commit or tag of the Hub model.")
    from_scratch: FromScratchConfig | None = None
    lora: LoraSettings | None = Field(default=None, description="Train an adapter; null trains all weights.")
    chat_template: str | None = Field(
        default=None,
        description="qwen3, llama3, mistral, gemma, chatml, or a file with a template; null: the model's own, or one "
        "that rlft ships for its family if the model's own rewrites earlier turns.",
    )
    dtype: Literal["float32", "bfloat16"] = Field(default="float32", description="Type of the weights.")
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="auto: cuda if torch sees a GPU.")
    keep: KeepConfig = KeepConfig()

    @field_validator("revision")
    @classmethod
    def _is_a_name(cls, revision: str | None) -> str | None:
        return revision if revision is None else check_name(revision, slashes=True)

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.model is None) == (self.from_scratch is None):
            raise ValueError("give `model` (a hub name or folder) or `from_scratch`: one of the two, and not both")
        return self


class WarmStartConfig(Section):
    """Supervised fine-tuning on demonstrations before reinforcement learning."""

    demonstrations: int = Field(
        default=1000, ge=1, description="So many at most: of train tasks, or from the beginning of `path`."
    )
    path: str | None = Field(
        default=None,
        description="JSONL file of conversations, each under `messages`; null: demonstrations of train tasks by the "
        "environment, which are their gold answers unless it says otherwise.",
    )
    steps: int = Field(ge=1, description="Optimizer steps.")
    batch_size: int = Field(default=64, ge=1, description="Demonstrations in each step.")
    learning_rate: float = Field(default=1e-4, gt=0)
    warmup_steps: int = Field(default=20, ge=0, description="Steps over which the learning rate rises from 0.")
