"""What both sides of `grpo_step` do: the model, its tokens, the prompts and the reward."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.utils import logging

LEARNING_RATE = 1e-6
LORA_RANK, LORA_ALPHA = 16, 32
SEED = 0
SHAPES: dict[str, dict[str, int]] = {
    "toy": {  # only to see that a benchmark runs
        "vocab_size": 98,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
    },
    "tiny": {
        "vocab_size": 98,
        "hidden_size": 256,
        "intermediate_size": 704,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
    },
    "60m": {
        "vocab_size": 98,
        "hidden_size": 640,
        "intermediate_size": 1920,
        "num_hidden_layers": 12,
        "num_attention_heads": 10,
        "num_key_value_heads": 5,
        "head_dim": 64,
    },
    "smollm2-10-layers": {  # a third of the layers of SmolLM2-135M
        "vocab_size": 49_152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 10,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 64,
    },
    "smollm2": {  # as many weights and operations as SmolLM2-135M, which has no norms of queries and keys
        "vocab_size": 49_152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 64,
    },
    "qwen3-0.6b": {
        "vocab_size": 151_936,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
}


@dataclass(frozen=True, slots=True)
class Workload:
    """One measurement: sizes in tokens and counts, and how the two sides are set up.

    The first `common_tokens` of the `prompt_tokens` are the same in all prompts.
    """

    prompt_tokens: int
    groups: int = 8
    group_size: int = 8
    completion_tokens: int = 64
    common_tokens: int = 0
    model: str = "tiny"
    vocabulary: int | None = None  # that of the model
    lora: bool = False
    gradient_checkpointing: bool = False
    device: str = "cpu"
    dtype: str = "float32"
    steps: int = 3  # after one that warms up
    threads: int = 2

    @property
    def rollouts(self) -> int:
        """Completions of a step."""
        return self.groups * self.group_size

    @property
    def shape(self) -> dict[str, int]:
        """Sizes of the model, by the names of its config."""
        shape = SHAPES[self.model]
        return shape if self.vocabulary is None else {**shape, "vocab_size": self.vocabulary}


def write_model(workload: Workload, folder: Path) -> None:
    """A model with random weights, always the same, and a tokenizer of one token a character.

    The end token has an id that the model has no logit for. So every completion is as long as it may be, and neither
    side pays for forbidding it.
    """
    logging.disable_progress_bar()
    context = max(1024, workload.prompt_tokens + workload.completion_tokens)
    config: Any = Qwen3Config(**workload.shape, max_position_embeddings=context, tie_word_embeddings=True)
    torch.manual_seed(SEED)
    with torch.device(workload.device):
        model = Qwen3ForCausalLM(config)
    model.to(getattr(torch, workload.dtype)).save_pretrained(folder)
    make_tokenizer(workload.shape["vocab_size"]).save_pretrained(folder)


def make_tokenizer(size: int) -> PreTrainedTokenizerFast:
    """`size` characters from the space on, and the end token after them."""
    codes = chain(range(ord(" "), 0xD800), range(0xE000, 0x110000))  # between them are no characters
    vocabulary = {chr(code): number for number, code in enumerate(islice(codes, size))} | {"<eos>": size}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<eos>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<eos>", padding_side="left"
    )


def make_prompts(workload: Workload) -> list[str]:
    """Random text of `prompt_tokens` characters each, different ones for every step after what is common."""
    draw = random.Random(SEED)
    letters = [chr(ord(" ") + i) for i in range(min(64, workload.shape["vocab_size"]))]
    count = workload.groups * (workload.steps + 1)
    common = "".join(draw.choices(letters, k=workload.common_tokens))
    own = workload.prompt_tokens - workload.common_tokens
    return [common + "".join(draw.choices(letters, k=own)) for _ in range(count)]


def score(text: str) -> float:
    """A reward that costs next to nothing and differs between the random completions of a group."""
    return sum(map(ord, text)) % 997 / 997
