"""Draws one token per row from logits."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers.generation.logits_process import MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from rlft.engines.base import Sampling

_BLOCK = 512  # tokens of the vocabulary whose probabilities are summed up before they are looked at one by one


def sample(logits: Tensor, uniform: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Draw by inverting the cumulative distribution at `uniform`; temperature 0 takes the likeliest token.

    Args:
        logits: Float [rows, vocabulary].
        uniform: Float64 [rows], in [0, 1).
        sampling: Temperature, and how the distribution is truncated.

    Returns:
        Token ids [rows] and their natural log-probabilities [rows] (float32) under the distribution drawn from; for
        temperature 0, under temperature 1.
    """
    scaled = logits.float()
    if sampling.temperature == 0:
        chosen = scaled.argmax(-1)
    else:
        scaled = _truncate(scaled / sampling.temperature, sampling)
        chosen = _invert(scaled.softmax(-1), uniform)
    chosen_logits = scaled.gather(-1, chosen[:, None]).squeeze(-1)
    return chosen, chosen_logits - scaled.logsumexp(-1)


def _truncate(scaled: Tensor, sampling: Sampling) -> Tensor:
    """Return the logits with minus infinity where `top_k`, `top_p` or `min_p`, in this order, truncate them."""
    unused = torch.empty(0, dtype=torch.int64)  # the token ids so far, which these do not look at
    if 0 < sampling.top_k < scaled.shape[-1]:
        scaled = TopKLogitsWarper(sampling.top_k)(unused, scaled)  # type: ignore[reportArgumentType]
    if sampling.top_p < 1:
        scaled = TopPLogitsWarper(sampling.top_p)(unused, scaled)  # type: ignore[reportArgumentType]
    if sampling.min_p > 0:
        scaled = MinPLogitsWarper(sampling.min_p)(unused, scaled)  # type: ignore[reportArgumentType]
    return scaled


def _invert(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """Return the token ids [rows] at which the cumulative distribution first exceeds `uniform`.

    The sum runs in float64, first over blocks and then inside the one that is hit. In float32 a running sum over a
    large vocabulary would round small probabilities away.
    """
    rows, size = probabilities.shape
    padded = torch.nn.functional.pad(probabilities, (0, -size % _BLOCK))
    blocks = padded.view(rows, -1, _BLOCK)
    by_block = blocks.sum(-1).double().cumsum(-1)
    block, point = _hit(by_block, uniform * by_block[:, -1])
    before = by_block.gather(-1, (block - 1).clamp(min=0)[:, None]).squeeze(-1).where(block > 0, 0.0)
    inside = blocks[torch.arange(rows, device=blocks.device), block].double().cumsum(-1)
    place, _ = _hit(inside, point - before)
    return block * _BLOCK + place


def _hit(cumulative: Tensor, point: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first place [rows] whose cumulative sum is above `point`, and the point.

    Rounding may have pushed the point past the last sum or below 0; it is moved back, so that there is such a place.
    """
    below = torch.nextafter(cumulative[:, -1], torch.zeros_like(point))
    point = point.clamp(min=0.0).minimum(below)
    return torch.searchsorted(cumulative, point[:, None], right=True).squeeze(-1), point
