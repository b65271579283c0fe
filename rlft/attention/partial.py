"""Attention over a part of the keys, with the log-sum-exp by which the results for several parts are put together.

Attention over keys A and B together is the mean of attention over A and attention over B, weighted by their shares of
the sum of exponentials (arXiv:2205.14135, section 3.1). The gradient of each part needs only the output and the
log-sum-exp of the whole. Kernels of torch compute it where there is one that also returns the log-sum-exp.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_HALF = (torch.float16, torch.bfloat16)
_aten: Any = torch.ops.aten


def attend(
    query: Tensor, key: Tensor, value: Tensor, *, scale: float, causal: bool = False, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute softmax attention and the log-sum-exp of its scores, outside autograd: `attend_backward` is its gradient.

    Args:
        query: [batch, heads, queries, width].
        key: [batch, key heads, keys, width]; `heads` is a multiple of `key heads`, neighbours share one.
        value: Of the shape of `key`.
        scale: What the products of queries and keys are multiplied by.
        causal: Whether query i sees the keys up to i only; then there are as many keys as queries.
        mask: Added to the scores, in the query's type; [batch, 1, 1, keys].

    Returns:
        The output [batch, heads, queries, width] and the log-sum-exp [batch, heads, queries], at least float32.
    """
    if query.device.type == "cpu":
        if mask is not None:
            mask = mask.expand(-1, -1, query.shape[2], -1)
        return _aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, causal, attn_mask=mask, scale=scale
        )
    if query.dtype in _HALF and mask is None:
        key, value = _widen(key, query), _widen(value, query)
        return _aten._scaled_dot_product_flash_attention(query, key, value, 0.0, causal, scale=scale)[:2]
    return _attend_densely(query, key, value, scale, causal, mask)


def attend_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    log_sum_exp: Tensor,
    *,
    scale: float,
    causal: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of query, key and value through this part of the keys, in the shapes of `attend`.

    `gradient` (of the output), `output` and `log_sum_exp` are those of attention over all parts: with the log-sum-exp
    over all keys, the weights that are recomputed for one part are those it has in the whole.
    """
    if query.device.type == "cpu":
        return _aten._scaled_dot_product_flash_attention_for_cpu_backward(
            gradient, query, key, value, output, log_sum_exp, 0.0, causal, scale=scale
        )
    if query.dtype in _HALF:
        return _flash_backward(gradient, query, key, value, output, log_sum_exp, scale, causal)
    return _attend_densely_backward(gradient, query, key, value, output, log_sum_exp, scale, causal)


def merge_(output: Tensor, log_sum_exp: Tensor, other: Tensor, other_log_sum_exp: Tensor) -> None:
    """Merge the result for another part of the keys into `output` [..., width] and `log_sum_exp` [...], in place."""
    share = torch.sigmoid(other_log_sum_exp - log_sum_exp)  # of the other part: exp(b) / (exp(a) + exp(b))
    output.lerp_(other, share.unsqueeze(-1).to(output.dtype))
    torch.logaddexp(log_sum_exp, other_log_sum_exp, out=log_sum_exp)


def _widen(key: Tensor, query: Tensor) -> Tensor:
    """Return as many key heads as heads; copied only where there are fewer, since the keys may be a large cache."""
    repeat = query.shape[1] // key.shape[1]
    return key.repeat_interleave(repeat, 1) if repeat > 1 else key


def _flash_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    log_sum_exp: Tensor,
    scale: float,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Call the GPU's kernel, which wants as many key heads as heads, and add up the gradients of heads that share one.

    The kernel takes the random state of the dropout; without dropout it does not look at it.
    """
    repeat = query.shape[1] // key.shape[1]
    wide_key, wide_value = _widen(key, query), _widen(value, query)
    no_random_state = torch.empty(2, dtype=torch.uint64, device=query.device)
    by_query, by_key, by_value = _aten._scaled_dot_product_flash_attention_backward(
        gradient,
        query,
        wide_key,
        wide_value,
        output,
        log_sum_exp.contiguous(),
        None,
        None,
        query.shape[2],
        key.shape[2],
        0.0,
        causal,
        no_random_state,
        no_random_state,
        scale=scale,
    )
    return by_query, by_key.unflatten(1, (-1, repeat)).sum(2), by_value.unflatten(1, (-1, repeat)).sum(2)


def _scores(query: Tensor, key: Tensor, scale: float, causal: bool, mask: Tensor | None) -> Tensor:
    """Return the scaled and masked scores [batch, key heads, heads per key head, queries, keys], at least float32."""
    grouped = query.unflatten(1, (key.shape[1], -1))
    if query.is_cuda and query.dtype in _HALF and grouped.shape[2] == 1:  # `@` would round the products to half
        products = torch.bmm(query.flatten(0, 1), key.flatten(0, 1).transpose(1, 2), out_dtype=torch.float32)
        scores = products.unflatten(0, (len(query), -1)).unsqueeze(2) * scale
    else:
        scores = (grouped @ key.unsqueeze(2).transpose(-1, -2)) * scale
        scores = scores.float() if scores.dtype in _HALF else scores
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(future, -torch.inf)
    return scores if mask is None else scores + mask.unsqueeze(1)


def _attend_densely(
    query: Tensor, key: Tensor, value: Tensor, scale: float, causal: bool, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Do what `attend` does with all scores in memory: where no kernel fits (a mask, or float32 on a GPU)."""
    scores = _scores(query, key, scale, causal, mask)
    log_sum_exp = scores.logsumexp(-1)
    weights = (scores - log_sum_exp.unsqueeze(-1)).exp().to(value.dtype)
    return (weights @ value.unsqueeze(2)).flatten(1, 2), log_sum_exp.flatten(1, 2)


def _attend_densely_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    log_sum_exp: Tensor,
    scale: float,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Do what `attend_backward` does with all scores in memory (arXiv:2205.14135, appendix B.2)."""
    heads = (key.shape[1], -1)
    weights = (_scores(query, key, scale, causal, None) - log_sum_exp.unflatten(1, heads).unsqueeze(-1)).exp()
    grouped, query = gradient.unflatten(1, heads), query.unflatten(1, heads)
    by_value = weights.to(grouped.dtype).transpose(-1, -2) @ grouped
    by_weights = grouped @ value.unsqueeze(2).transpose(-1, -2)
    drift = (grouped * output.unflatten(1, heads)).sum(-1, keepdim=True)
    by_scores = (weights * (by_weights - drift) * scale).to(query.dtype)
    by_query = by_scores @ key.unsqueeze(2)
    by_key = by_scores.transpose(-1, -2) @ query
    return by_query.flatten(1, 2), by_key.sum(2), by_value.sum(2)
