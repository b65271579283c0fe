"""The sections `policy` and `warm_start` of a config: the model that is trained, and its supervised start."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from rlft.config.section import MOST, FolderName, PathText, Section

TemplateVariables = dict[
    Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")], bool | Annotated[int, Field(ge=0, le=MOST)] | str
]
"""Variables of a chat template, by name."""


class LoraSettings(Section):
    """A low-rank adapter (LoRA, arXiv:2106.09685) that is trained while the base weights stay as they are."""

    rank: int = Field(default=16, ge=1, le=65_536, description="Rank of the adapter's matrices.")
    alpha: int = Field(
        default=32, ge=1, le=MOST, description="Scale of the adapter: its output is multiplied by alpha / rank."
    )
    target_modules: str | list[str] = Field(
        default="all-linear",
        description="Layers that get an adapter, as peft names them: `all-linear`, names of linear layers, or a "
        "regular expression that fits their whole paths.",
    )

    @field_validator("target_modules")
    @classmethod
    def _names_layers(cls, names: str | list[str]) -> str | list[str]:
        is_name = isinstance(names, str) and names != "all-linear" and names.isidentifier()
        return [str(names)] if is_name else names  # peft takes a text for a regular expression of whole paths


class FromScratchConfig(Section):
    """A small model with random weights, for trying things out without a download."""

    architecture: Literal["qwen3", "llama", "gpt2"] = Field(
        default="qwen3", description="Architecture of the model, as transformers implements it."
    )
    characters: str = Field(
        min_length=1,
        max_length=200_000,
        description="All characters that the tokenizer knows; each of them is one token.",
    )
    pieces: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[], description="Longer texts that are one token each, such as the marks around a tool call."
    )
    hidden_size: int = Field(default=128, ge=8, le=16_384, description="Width of the hidden states.")
    num_hidden_layers: int = Field(default=3, ge=1, le=256, description="Number of transformer layers.")
    num_attention_heads: int = Field(default=4, ge=1, le=1024, description="Attention heads in each layer.")
    intermediate_size: int = Field(default=384, ge=8, le=131_072, description="Width of the hidden layer of each MLP.")
    max_position_embeddings: int = Field(
        default=64, ge=8, le=MOST, description="Context length: most tokens that prompt and completion have together."
    )


class KeepConfig(Section):
    """Which rounds keep their weights and optimizer state on disk. The first policy and the best one always do."""

    last: int = Field(
        default=2,
        ge=1,
        le=MOST,
        description="This many of the newest rounds keep weights and optimizer state. Resuming needs one.",
    )
    every: int = Field(
        default=0, ge=0, le=MOST, description="Every n-th round keeps them, too. 0 means that no round does by this."
    )


class LoadedModel(Section):
    """How a model is loaded."""

    chat_template: PathText | None = Field(
        default=None,
        description="Chat template: qwen3, llama3, mistral, gemma, chatml, or a file that holds one. null means the "
        "model's own, or the one that rlft ships for its family if the model's own rewrites earlier turns. In a "
        "suite it is for models that are named by hub name or folder.",
    )
    chat_template_kwargs: TemplateVariables = Field(
        default={},
        description="Variables of the chat template, such as {enable_thinking: false}. They are kept in the template, "
        "so that the policy is served with them.",
    )
    dtype: Literal["float32", "bfloat16"] = Field(default="float32", description="Data type of the weights.")
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="Device of the model. `auto` means cuda if torch sees a GPU, else cpu."
    )


class PolicyConfig(LoadedModel):
    """The model that is trained."""

    model: PathText | None = Field(
        default=None,
        description="Name on the Hugging Face Hub, or folder, of a causal language model. Give this or `from_scratch`.",
    )
    revision: FolderName | None = Field(
        default=None, description="Branch, tag or commit of the Hub model. null means its main branch."
    )
    from_scratch: FromScratchConfig | None = None
    lora: LoraSettings | None = Field(
        default=None, description="Train a LoRA adapter. null means that all weights are trained."
    )
    keep: KeepConfig = KeepConfig()

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.model is None) == (self.from_scratch is None):
            raise ValueError("give `model` (a hub name or folder) or `from_scratch`: one of the two, and not both")
        return self


class WarmStartConfig(Section):
    """Supervised fine-tuning on demonstrations before reinforcement learning."""

    demonstrations: int = Field(
        default=1000,
        ge=1,
        le=10 * MOST,
        description="At most this many demonstrations are used: those of a sample of the train tasks, or a sample of "
        "the rows of `path`, always the same one.",
    )
    path: PathText | None = Field(
        default=None,
        description="JSONL file of conversations, each under the key `messages`. null means that the environment "
        "gives the demonstrations of train tasks, which are their gold answers unless it says otherwise.",
    )
    allow_overlap: bool = Field(
        default=False,
        description="Whether rows of `path` may demonstrate tasks of `validation`, `gate`, `test` or "
        "`off_distribution`. A run stops at the first such row before it trains, unless this makes it a warning.",
    )
    steps: int = Field(ge=1, le=MOST, description="Number of optimizer steps.")
    batch_size: int = Field(default=64, ge=1, le=MOST, description="Demonstrations in each optimizer step.")
    learning_rate: float = Field(default=1e-4, gt=0, le=1000, description="Learning rate of AdamW after the warm-up.")
    warmup_steps: int = Field(
        default=20, ge=0, le=MOST, description="Optimizer steps over which the learning rate rises linearly from 0."
    )
