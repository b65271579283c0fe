"""Takes a causal language model apart: into a backbone that gives hidden states, and a head that makes logits of them.

With the two apart, log-probabilities of chosen tokens can be computed without all logits of tokens times vocabulary at
once (`selected_logprobs`).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from peft import PeftModel
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from rlft.models.blockwise import (
    FLOOR,
    HALVES,
    Link,
    blockwise_logits,
    blockwise_logprobs,
    chunk_bytes,
    precision,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Head:
    """Holds an output layer and what the model does to its output.

    logits = layer(hidden), or softcap * tanh(layer(hidden) / softcap) where there is a softcap, as in Gemma 2.
    The layer works on each token alone.
    """

    layer: nn.Module
    softcap: float | None = None

    @property
    def linear(self) -> nn.Linear | None:
        """The layer if it is a weight and a bias and nothing else, otherwise `None`, as for an adapter's layer."""
        layer = self.layer
        if type(layer) is not nn.Linear or "forward" in vars(layer):  # some libraries replace `forward` of an instance
            return None
        return None if layer._forward_hooks or layer._forward_pre_hooks else layer

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits [..., vocabulary] from hidden states [..., width], in float32 or float64.

        For a linear layer of half precision the products are float32, as in `selected_logprobs`, and have no gradient.
        """
        linear = self.linear
        if linear is not None and linear.weight.dtype in HALVES:
            return blockwise_logits(hidden.flatten(0, -2), linear, Link(1.0, self.softcap)).unflatten(
                0, hidden.shape[:-1]
            )
        raw = self.layer(hidden)
        raw = raw.to(precision(raw))
        return raw if self.softcap is None else self.softcap * torch.tanh(raw / self.softcap)


@dataclass(frozen=True, slots=True)
class SplitModel:
    """Holds a live model as `backbone` and `head`: the head's logits of the backbone's output are the model's logits.

    Adapters stay active in both and are switched off by the model's `disable_adapter`. Where a model could not be taken
    apart, `body` is `None`: the backbone gives the model's own logits, and the head passes them on. `slices_logits`
    says whether that model has the argument `logits_to_keep`.
    """

    model: Any
    body: nn.Module | None
    head: Head
    slices_logits: bool = False

    def backbone(self, *, logits_to_keep: int = 0, **inputs: Any) -> Tensor:
        """Return the head's input, [rows, tokens, width], at the last `logits_to_keep` tokens (0: at all of them).

        `inputs` are those of the model, such as `input_ids`, `attention_mask`, `position_ids` and `past_key_values`
        (which grows in place).
        """
        if self.body is not None:
            return self.body(**inputs)[0][:, -logits_to_keep:]
        if self.slices_logits:
            inputs["logits_to_keep"] = logits_to_keep
        return self.model(**inputs).logits[:, -logits_to_keep:]


def split_model(model: Any) -> SplitModel:
    """Take apart a model of transformers, with or without a LoRA adapter.

    Nothing is taken on trust: the parts are compared with the whole on a few tokens (two short passes without gradient;
    the model's state and the random numbers stay as they were). Where they differ, or are not found, a warning says so
    and the result goes through the model's own logits, whose memory grows with tokens times vocabulary. Split again
    after layers were exchanged, as by adding an adapter.
    """
    base: Any = model.get_base_model() if isinstance(model, PeftModel) else model
    body, layer = base.base_model, base.get_output_embeddings()
    head = Head(layer, getattr(model.config.get_text_config(), "final_logit_softcapping", None))
    if body is not base and layer is not None and _gives_logits(model, body, head):
        return SplitModel(model, body, head)
    logger.warning(
        "the output layer of %s is not understood: memory will grow with tokens times vocabulary", type(model).__name__
    )
    slices = "logits_to_keep" in inspect.signature(base.forward).parameters
    return SplitModel(model, None, Head(nn.Identity()), slices)


@contextmanager
def probing(model: nn.Module) -> Iterator[None]:
    """Put the model in evaluation mode without gradient; modes and random numbers are as before afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    device = next(model.parameters()).device
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            model.eval()
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def _gives_logits(model: Any, body: nn.Module, head: Head) -> bool:
    """Return whether the head makes the model's logits of the backbone's output."""
    device = next(model.parameters()).device
    ids = (torch.arange(4, device=device) % model.config.get_text_config().vocab_size)[None]
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
    with probing(model):
        return _close(head.logits(body(**inputs)[0]), model(**inputs).logits)


def _close(one: Tensor, other: Tensor) -> bool:
    """Return whether the two are equal but for the rounding of their type, measured against the largest number."""
    tolerance = 1e-4 if one.dtype == other.dtype == torch.float32 else 3e-2
    tolerance = 1e-9 if one.dtype == other.dtype == torch.float64 else tolerance
    difference = (one.double() - other.double()).abs().max()
    return one.shape == other.shape and bool(difference <= tolerance * other.abs().max())


@dataclass(frozen=True, slots=True)
class SelectedLogprobs:
    """Holds natural log-probabilities with gradient, and entropies in nats without (`None` when not asked for).

    Both are [tokens], or [rollouts, tokens] from `rlft.training.logprobs`, in float32, or float64 where the hidden
    states are.
    """

    logprobs: Tensor
    entropy: Tensor | None


def selected_logprobs(
    hidden: Tensor,
    head: Head,
    token_ids: Tensor,
    temperature: float,
    *,
    with_entropy: bool = True,
    max_chunk_bytes: int | None = None,
) -> SelectedLogprobs:
    """Return the log-probabilities of `token_ids` under softmax(head.logits(hidden) / temperature).

    Memory beyond the inputs and their gradients is a few buffers of `max_chunk_bytes`, however many tokens there are. A
    linear head is computed in blocks of tokens times vocabulary; any other some tokens at a time, and again in the
    backward pass. Logits that fit in one chunk are kept, as that is faster.

    Args:
        hidden: [tokens, width], what the head's layer takes as input.
        head: The output layer; gradients go to its trainable parameters.
        token_ids: Int [tokens], 0 to vocabulary - 1.
        temperature: Above 0.
        with_entropy: Whether to compute the entropy of every token's distribution.
        max_chunk_bytes: Size of one buffer of logits; `None` is 16 MiB, on a GPU 64 MiB.

    Raises ValueError for shapes that do not fit together, a temperature of 0 or less, and token ids outside the
    vocabulary.
    """
    linear = head.linear
    with torch.no_grad():
        vocabulary = linear.out_features if linear else head.layer(hidden[:1]).shape[-1]
    _check(hidden, token_ids, temperature, vocabulary)
    if max_chunk_bytes is None:
        max_chunk_bytes = chunk_bytes(hidden)
    rows = max(1, max_chunk_bytes // (vocabulary * precision(hidden).itemsize))
    link = Link(1.0 / temperature, head.softcap and head.softcap / temperature, with_entropy)
    # Half precision is computed in blocks however few tokens there are: the layer itself would round its logits.
    if linear and (len(hidden) > rows or linear.weight.dtype in HALVES):
        logprobs, entropy = blockwise_logprobs(hidden, linear, token_ids, link, max_chunk_bytes)
    elif len(hidden) > rows:
        logprobs, entropy = _part_by_part(hidden, head, token_ids, link, rows)
    else:
        logprobs, entropy = _all_at_once(hidden, head, token_ids, link)
    return SelectedLogprobs(logprobs, entropy)


def _check(hidden: Tensor, token_ids: Tensor, temperature: float, vocabulary: int) -> None:
    if hidden.dim() != 2 or token_ids.shape != hidden.shape[:1]:
        raise ValueError(f"hidden {tuple(hidden.shape)} and token_ids {tuple(token_ids.shape)} do not fit together")
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}: log-probabilities need one above 0")
    if len(token_ids):
        lowest, highest = (int(bound) for bound in token_ids.aminmax())
        if lowest < 0 or highest >= vocabulary:
            raise ValueError(f"token_ids go from {lowest} to {highest}, in a vocabulary of {vocabulary}")


def _all_at_once(hidden: Tensor, head: Head, token_ids: Tensor, link: Link) -> tuple[Tensor, Tensor | None]:
    return _FromLogits.apply(head.layer(hidden), token_ids, link, torch.is_grad_enabled())


def _part_by_part(hidden: Tensor, head: Head, token_ids: Tensor, link: Link, rows: int) -> tuple[Tensor, Tensor | None]:
    """Take `rows` tokens at a time; their logits are not kept but computed again for the gradient."""
    parts = zip(hidden.split(rows), token_ids.split(rows), strict=True)
    results = [checkpoint(_all_at_once, part, head, ids, link, use_reentrant=False) for part, ids in parts]
    logprobs = torch.cat([logprobs for logprobs, _ in results])
    return logprobs, torch.cat([entropy for _, entropy in results]) if link.with_entropy else None


class _FromLogits(Function):
    """Computes log-probabilities and entropies from a layer's whole output; keeps one tensor of that shape."""

    @staticmethod
    def forward(ctx: Any, raw: Tensor, token_ids: Tensor, link: Link, grad_enabled: bool) -> Any:
        scaled = raw.to(precision(raw))
        if link.scale != 1 or link.softcap is not None:
            scaled = scaled * link.scale
        scaled, slope = link.cap(scaled)
        everything = scaled.log_softmax(1)
        logprobs = everything.gather(1, token_ids[:, None]).squeeze(1)
        probabilities = everything.exp()
        entropy = None
        if link.with_entropy:
            entropy = everything.clamp_(min=FLOOR).mul_(probabilities).sum(1).neg_()
            ctx.mark_non_differentiable(entropy)
        if grad_enabled and ctx.needs_input_grad[0]:
            # Minus the derivative of a log-probability by its logits: p - 1 at the chosen token, p at the others. expm1
            # keeps digits that subtracting would lose where p is close to 1.
            falling = probabilities.scatter_(1, token_ids[:, None], logprobs.expm1()[:, None])
            ctx.save_for_backward(falling if slope is None else falling.mul_(slope))
            ctx.scale, ctx.dtype = link.scale, raw.dtype
        return logprobs, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Any) -> Any:  # type: ignore[reportIncompatibleMethodOverride]
        (falling,) = ctx.saved_tensors
        return (falling * (grad_outputs[0] * -ctx.scale)[:, None]).to(ctx.dtype), None, None, None
