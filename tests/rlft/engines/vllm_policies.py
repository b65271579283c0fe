"""Small policies that vLLM can compute on a CPU, and what they say by nothing but transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rlft.models import Policy
from tests.rlft.models.small_models import EOS, add_lora, make_model, policy_of

# vLLM's kernels want heads of 32; the context holds the longest canary, and so two whole blocks of the prefix cache.
VOCABULARY, CONTEXT = 98, 512
_LLAMA = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "max_position_embeddings": CONTEXT,
}
SHAPES = {"gpt2": {"n_embd": 64, "n_head": 2, "n_positions": CONTEXT}, "llama": _LLAMA, "qwen3": _LLAMA}


def make_vllm_policy(
    family: str = "qwen3", *, lora: bool = False, stop: Sequence[int] = (EOS,), **options: Any
) -> Policy:
    """A policy that these tokens stop; `options` are of its model."""
    model = make_model(family, **({"sharpness": 2.0, "vocab_size": VOCABULARY} | SHAPES[family] | options))
    model.generation_config.eos_token_id = list(stop)
    return policy_of(add_lora(model) if lora else model)


def move(policy: Policy, size: float, seed: int = 0) -> None:
    """Every trained weight by `size` up or down, as Adam's first step of this learning rate."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.trainable().values():
            parameter += size * torch.randn(parameter.shape, generator=draw).sign()
    policy.note_change(update=policy.metadata.update + 1)


def scores(policy: Policy, prompt: Sequence[int], tokens: Sequence[int], temperature: float) -> np.ndarray:
    """Log-probabilities in float64, from nothing but the model's logits."""
    with torch.no_grad():
        logits = policy.model(input_ids=torch.tensor([[*prompt, *tokens]]), use_cache=False).logits[0].double().numpy()
    rows = logits[len(prompt) - 1 : -1] / temperature
    rows -= rows.max(-1, keepdims=True)
    return rows[np.arange(len(tokens)), tokens] - np.log(np.exp(rows).sum(-1))
