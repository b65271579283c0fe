"""How an attention of ours gets under a transformers model: by its registry of attention functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from torch import Tensor, nn
from transformers import AttentionInterface

NAME = "rlft"
_HARMLESS = {  # what models hand to every attention function and ours may pass over
    "cache_position",
    "is_causal",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "position_embeddings",
    "position_ids",
    "return_dict",
    "use_cache",
}


class UnsupportedAttention(Exception):
    """This model's attention is more than a softmax over all earlier tokens."""


class Attention(Protocol):
    """What stands in for the attention of every layer during one forward pass."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Heads first, [batch, heads, tokens, width], in and out."""
        ...


@contextmanager
def attending(model: Any) -> Iterator[None]:
    """Inside, every call of `model` must be given `attention=`, an `Attention` that replaces its own."""
    AttentionInterface.register(NAME, _forward)
    config = model.config
    before = config._attn_implementation
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before


def _forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    attention: Attention | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **others: Any,
) -> tuple[Tensor, None]:
    """In the form transformers calls. Raises UnsupportedAttention for a feature that would silently be left out."""
    features = sorted(name for name, value in others.items() if value is not None and name not in _HARMLESS)
    same = key.shape == value.shape and key.shape[2] == query.shape[2]  # else: a prefix, or a cache of the model's own
    if attention is None or attention_mask is not None or dropout or features or not same:
        if attention is None:
            raise UnsupportedAttention("it does not hand arguments of a call on to its attention")
        raise UnsupportedAttention(f"attention with {', '.join(features) or 'a form'} that is not understood")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    output = attention.attend(int(module.layer_idx), query, key, value, scale)  # type: ignore[reportArgumentType]
    return output.transpose(1, 2), None
