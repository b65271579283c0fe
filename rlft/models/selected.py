"""Log-probabilities of chosen tokens from hidden states, without all logits of tokens times vocabulary at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from rlft.models.blockwise import FLOOR, HALVES, Link, blockwise_logprobs, chunk_bytes, precision
from rlft.models.split import Head


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
