"""Small models of several families, and what they say without anything of ours: one unpadded row at a time."""

from __future__ import annotations

from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

from rlft.models import Policy
from rlft.models.live import PolicyMetadata
from rlft.models.origin import in_dtype
from rlft.models.tokens import character_tokenizer
from rlft.types import Rollout
from tests.factories import CHARACTERS

FAMILIES = ("qwen3", "llama", "gemma", "gpt2")  # whose attention is over all earlier tokens
SLIDING = ("mistral", "gemma2", "gemma3_text")
OTHERS = (*SLIDING, "mamba", "bloom")
EOS, VOCABULARY = 1, 16
_WIDTH, _LAYERS, _HEADS, _CONTEXT = 32, 2, 4, 64
_LLAMA = {
    "hidden_size": _WIDTH,
    "intermediate_size": 48,
    "num_hidden_layers": _LAYERS,
    "num_attention_heads": _HEADS,
    "num_key_value_heads": 2,
    "head_dim": _WIDTH // _HEADS,
    "max_position_embeddings": _CONTEXT,
}
_SHAPES: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": _WIDTH, "n_layer": _LAYERS, "n_head": _HEADS, "n_positions": _CONTEXT},
    "mamba": {"hidden_size": _WIDTH, "num_hidden_layers": _LAYERS, "state_size": 4},
    "bloom": {"hidden_size": _WIDTH, "n_layer": _LAYERS, "n_head": _HEADS},
    "opt": {
        "hidden_size": _WIDTH,
        "word_embed_proj_dim": _WIDTH,
        "ffn_dim": 48,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "max_position_embeddings": _CONTEXT,
    },
    **{family: {**_LLAMA, "sliding_window": 4} for family in SLIDING},
}


def make_model(
    family: str, *, sharpness: float = 3.0, seed: int = 0, dtype: torch.dtype = torch.float32, **shape: Any
) -> Any:
    """A model of two layers; `sharpness` multiplies its matrices, so that attention and answers are far from even."""
    fields = {"vocab_size": VOCABULARY, "pad_token_id": 0, "eos_token_id": EOS, "bos_token_id": None}
    config = AutoConfig.for_model(family, **(fields | _SHAPES.get(family, _LLAMA) | shape))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config)
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "norm" not in name:
                parameter.data *= sharpness
            elif "bias" in name or "norm" in name:
                parameter.data += 0.1 * torch.randn_like(parameter)
    model.generation_config = GenerationConfig(eos_token_id=EOS, pad_token_id=0)
    return in_dtype(model, dtype).eval()


def add_lora(model: Any, *, seed: int = 0, rank: int = 4, autocast: bool = False, **options: Any) -> Any:
    """With an adapter that is no longer new: both of its halves are random, and both have gradients.

    With `autocast` it is float32 over a model of half precision, as peft makes one unless told otherwise.
    """
    transposed = model.config.model_type == "gpt2"  # its linear layers hold their weights so
    config = LoraConfig(
        r=rank,
        lora_alpha=8,
        target_modules="all-linear",
        init_lora_weights=False,
        fan_in_fan_out=transposed,
        task_type="CAUSAL_LM",
        **options,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        adapted = get_peft_model(model, config, autocast_adapter_dtype=autocast)
    return adapted.eval()


def policy_of(model: Any) -> Policy:
    """A policy that was never saved."""
    kind = "adapter" if hasattr(model, "peft_config") else "full"
    metadata = PolicyMetadata(kind, base_model=None, base_revision=None, base_hash=None, dtype="float32")
    return Policy(model, character_tokenizer(CHARACTERS), metadata)


def make_small_policy(family: str, *, lora: bool = False, **options: Any) -> Policy:
    """A policy of `make_model`."""
    model = make_model(family, **options)
    return policy_of(add_lora(model) if lora else model)


def tokens_read(model: nn.Module) -> list[tuple[bool, int]]:
    """A list that fills with (with gradient, number of tokens) of each pass of the model from now on."""
    found: list[tuple[bool, int]] = []
    model.get_input_embeddings().register_forward_hook(  # type: ignore[reportCallIssue]
        lambda _, ids, __: found.append((torch.is_grad_enabled(), ids[0].numel()))
    )
    return found


def alone(model: Any, rollout: Rollout, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """Log-probabilities (with gradient) and entropies of all tokens after the prompt, by the model as it is."""
    ids = torch.tensor(rollout.token_ids.tolist(), device=next(model.parameters()).device)
    logits = model(input_ids=ids[None], use_cache=False).logits[0, rollout.prompt_length - 1 : -1]
    scaled = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    everything = scaled.log_softmax(-1)
    chosen = everything.gather(1, ids[rollout.prompt_length :, None]).squeeze(1)
    return chosen, -(everything.exp() * everything).sum(-1).detach()
