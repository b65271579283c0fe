"""Makes a transformers model use one of this room's attentions, by transformers' registry of attention functions.

`shares_prompts` tries on a few tokens whether it then gives the same logits as with its own, because a config does not
tell all that a model's code does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from rlft.models.attention.packed import PackedTree, Tree
from rlft.models.head import probing

_log = logging.getLogger(__name__)
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
# Sequences of a trial: two prompts that begin alike, with two and three completions, and one sequence that has nothing
# in common with the others. The longest has 8 tokens: some models have no more positions. There is no 0, as it is often
# the padding, of which models warn.
_NUMBERS = (
    (1, 2, 3, 4, 5, 6, 7),
    (1, 2, 3, 8, 9),
    (1, 2, 10, 11, 12, 13, 14, 15),
    (1, 2, 10, 11, 12, 16, 17, 18),
    (1, 2, 10, 11, 12, 19),
    (20, 21, 22, 23),
)
_ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4}  # largest relative difference of a token's logits
_HALF_ROUNDING = 0.2  # rounding adds up over 28 layers in bfloat16; what this would hide, a leak, has its own test
_LEAK = 0.05  # a share of the above: two passes of the same shape are rounded alike, so less is explained by it


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
    if attention is None:
        raise UnsupportedAttention("it does not hand arguments of a call on to its attention")
    if attention_mask is not None or dropout or features or not same:
        raise UnsupportedAttention(f"attention with {', '.join(features) or 'a form'} that is not understood")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    output = attention.attend(int(module.layer_idx), query, key, value, scale)  # type: ignore[reportArgumentType]
    return output.transpose(1, 2), None  # transformers wants the tokens before the heads, and weights or None


def shares_prompts(model: Any) -> bool:
    """Return whether `model` can encode common beginnings once; if not, log the reason in one line."""
    reason = _why_not(model)
    if reason:
        _log.info("each sequence is encoded whole, the plain and slower way: %s", reason)
    return reason is None


def _why_not(model: Any) -> str | None:
    """Return why prompts cannot be shared, `None` if they can."""
    try:
        with probing(model):
            return _objection(model) or _failed_trial(model)
    except Exception as cause:  # whatever a model's code raises, each row can still be encoded with its prompt
        return f"{type(cause).__name__}: {str(cause).splitlines()[0] if str(cause) else 'no message'}"


def _objection(model: Any) -> str | None:
    """Return a reason that its config or modules tell and a few tokens would not show, such as a sliding window."""
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None)
    if others := sorted(set(map(str, kinds or ())) - {"full_attention"}):
        return f"the model has layers of the kind {', '.join(others)}"
    if not kinds and getattr(config, "sliding_window", None):
        return f"its attention reaches {config.sliding_window} tokens back"
    if any(hasattr(module, "_orig_mod") or module._compiled_call_impl for module in model.modules()):
        return "it is compiled, which would start again for every new shape of a row"
    return None


def _failed_trial(model: Any) -> str | None:
    """Return what a packed row of a few tokens shows to be wrong, `None` if nothing.

    Its logits must be those of its completions one by one, must depend on the positions that the model is given, and
    must stay as they are when another completion of the row changes.
    """
    device = next(model.parameters()).device
    size = model.get_input_embeddings().weight.shape[0]
    step = next(number for number in (7, 11, 13, 1) if size % number)  # shares no factor with the size
    sequences = [[number * step % size for number in sequence] for sequence in _NUMBERS]
    tree = Tree.of(sequences, stride=1)
    ids, positions = (torch.from_numpy(part)[None] for part in tree.row(sequences))
    attention, layers = PackedTree(tree.edges), list[int]()

    def attend(layer: int, *given: Any) -> Tensor:
        layers.append(layer)
        return attention.attend(layer, *given)

    def read(ids: Tensor, positions: Tensor) -> Tensor:
        with attending(model):
            inputs = {"input_ids": ids.to(device), "position_ids": positions.to(device), "use_cache": False}
            return model(**inputs, attention=SimpleNamespace(attend=attend)).logits[0]

    packed = read(ids, positions)
    if sorted(layers) != list(range(model.config.get_text_config().num_hidden_layers)):
        return "not every layer is one attention over all earlier tokens"
    if torch.equal(packed, read(ids, positions.flip(-1))):
        return "it does not look at the positions it is given"
    edge = tree.edges[tree.paths[0][-1]]
    own = slice(edge.start, edge.stop)
    ids[0, own] = (ids[0, own] + 1) % size
    others = [place for place in range(tree.size) if not own.start <= place < own.stop]
    if not _close(read(ids, positions)[others], packed[others], share=_LEAK):
        return "a completion changes the outputs of others in the same row"
    for sequence, places in zip(sequences, tree.places, strict=True):
        alone = torch.tensor([sequence], device=device)
        logits = model(input_ids=alone, attention_mask=torch.ones_like(alone), use_cache=False).logits[0]
        if not _close(packed[places], logits):
            return "its outputs for a packed row differ from those of single ones"
    return None


def _close(ours: Tensor, theirs: Tensor, *, share: float = 1.0) -> bool:
    """Return whether logits [tokens, vocabulary] are equal at every token but for a `share` of the type's rounding."""
    tolerance = share * _ROUNDING.get(theirs.dtype, _HALF_ROUNDING)
    difference, size = (ours - theirs).double().norm(dim=-1), theirs.double().norm(dim=-1)
    return bool((difference <= tolerance * size).all())
