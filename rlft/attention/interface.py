"""Makes a transformers model use one of this room's attentions, by transformers' registry of attention functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from torch import Tensor, nn
from transformers import AttentionInterface

NAME = "rlft"  # of this room's attention in the registry
_HARMLESS = {  # arguments that models hand to every attention function and that this one may ignore
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
    """Raised for a model whose attention is more than a softmax over all earlier tokens."""


class Attention(Protocol):
    """Computes the attention of every layer during a forward pass, in place of the model's own."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Return the output of attention in the layer of this index; scores are multiplied by `scale`.

        `query` and output are [batch, heads, tokens, width], `key` and `value` [batch, key heads, tokens, width].
        """
        ...


@contextmanager
def attending(model: Any) -> Iterator[None]:
    """Replace the attention of `model` inside the context: every call there must be given `attention=`, an `Attention`.

    A call raises UnsupportedAttention if the model asks for a feature that an `Attention` does not have.
    """
    AttentionInterface.register(NAME, _forward)
    config = model.config
    before = config._attn_implementation
    config._attn_implementation = NAME  # layers look the function up at every call
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
    """Call `attention` in the form in which transformers calls an attention function.

    Raises UnsupportedAttention for a feature that would silently be left out.
    """
    features = sorted(name for name, value in others.items() if value is not None and name not in _HARMLESS)
    # More keys than queries come from a prefix or from a cache of the model's own, which an `Attention` does not know.
    same = key.shape == value.shape and key.shape[2] == query.shape[2]
    if attention is None or attention_mask is not None or dropout or features or not same:
        if attention is None:
            raise UnsupportedAttention("it does not hand arguments of a call on to its attention")
        raise UnsupportedAttention(f"attention with {', '.join(features) or 'a form'} that is not understood")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    output = attention.attend(int(module.layer_idx), query, key, value, scale)  # type: ignore[reportArgumentType]
    return output.transpose(1, 2), None  # transformers wants the tokens before the heads, and weights or None
