"""Attention for training on sequences that are packed into one row as a tree, each common beginning once, no padding.

    [prompt a | a's 1st completion | a's 2nd | ... | prompt b | b's 1st | ...]

A `Tree` lays out such rows. Every token sees the tokens of its edge up to itself, and the edges above it whole: parts
that are put together, so no mask of tokens times tokens is made and no key is copied for each sequence.

Attention over keys A and B together is the mean of attention over A and attention over B, weighted by their shares of
the sum of exponentials (arXiv:2205.14135, section 3.1). The gradient of each part needs only the output and the
log-sum-exp of the whole. Kernels of torch compute it where there is one that also returns the log-sum-exp.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
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
    if query.dtype not in _HALF:
        return _attend_densely_backward(gradient, query, key, value, output, log_sum_exp, scale, causal)
    wide_key, wide_value, sums = _widen(key, query), _widen(value, query), log_sum_exp.contiguous()
    lengths = (None, None, query.shape[2], key.shape[2])
    state = torch.empty(2, dtype=torch.uint64, device=query.device)  # of the dropout; without one it is not looked at
    by_query, by_key, by_value = _aten._scaled_dot_product_flash_attention_backward(
        gradient, query, wide_key, wide_value, output, sums, *lengths, 0.0, causal, state, state, scale=scale
    )
    heads = (key.shape[1], -1)  # the gradients of heads that share one are added up
    return by_query, by_key.unflatten(1, heads).sum(2), by_value.unflatten(1, heads).sum(2)


def merge_(output: Tensor, log_sum_exp: Tensor, other: Tensor, other_log_sum_exp: Tensor) -> None:
    """Merge the result for another part of the keys into `output` [..., width] and `log_sum_exp` [...], in place."""
    share = torch.sigmoid(other_log_sum_exp - log_sum_exp)  # of the other part: exp(b) / (exp(a) + exp(b))
    output.lerp_(other, share.unsqueeze(-1).to(output.dtype))
    torch.logaddexp(log_sum_exp, other_log_sum_exp, out=log_sum_exp)


def _widen(key: Tensor, query: Tensor) -> Tensor:
    """Return as many key heads as heads; copied only where there are fewer, since the keys may be a large cache."""
    repeat = query.shape[1] // key.shape[1]
    return key.repeat_interleave(repeat, 1) if repeat > 1 else key


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


STRIDE = 16
"""Sequences that part within a stretch of this many tokens part at its start: short edges cost more than they save."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Says where tokens that continue each other stand in a row: from `start` to `stop`.

    The tokens of all edges below follow, up to `end`. `depth` is the position of the first token in its sequences, and
    `count` says how many sequences go through the edge.
    """

    start: int
    stop: int
    end: int
    depth: int
    count: int


@dataclass(frozen=True, slots=True)
class Tree:
    """Holds sequences laid out in one row of `size` tokens, an edge before the edges below it.

    `edges` are in the order of the row; `paths` has the indices of the edges that each sequence goes through, and
    `places` [tokens] where each of its tokens stands in the row. `order` has the sequences in lexicographic order, and
    `shared` how many tokens each of these shares with the one before it: `size` is the sum of all lengths less these.
    """

    edges: tuple[Edge, ...]
    paths: tuple[tuple[int, ...], ...]
    places: tuple[np.ndarray, ...]
    order: tuple[int, ...]
    shared: tuple[int, ...]
    size: int

    @classmethod
    def of(
        cls,
        sequences: Sequence[Sequence[int] | np.ndarray],
        prompts: Sequence[int] | None = None,
        *,
        stride: int = STRIDE,
    ) -> Tree:
        """Return the tree of sequences of token ids.

        They part where they differ, rounded down to a multiple of `stride` or to the end of a prompt, of which
        `prompts` has the lengths in tokens.
        """
        arrays = [np.asarray(sequence, dtype=">u4") for sequence in sequences]
        ends = [len(array) for array in arrays] if prompts is None else prompts
        keys = [array.tobytes() for array in arrays]  # of big-endian numbers, so that they sort as the numbers do
        order = sorted(range(len(arrays)), key=keys.__getitem__)
        shared = [0] * min(1, len(order))
        for one, other in pairwise(order):
            most = min(len(arrays[one]), len(arrays[other]))
            equal = int(np.cumprod(arrays[one][:most] == arrays[other][:most]).sum())
            if keys[one] != keys[other]:
                equal = max(equal - equal % stride, *(end for end in (ends[one], ends[other], 0) if end <= equal))
            shared.append(equal)
        edges, paths = _lay_out([len(array) for array in arrays], order, shared)
        spans = [np.arange(edge.start, edge.stop) for edge in edges]
        places = [np.concatenate([spans[edge] for edge in path] or [np.arange(0)]) for path in paths]
        size = edges[-1].stop if edges else 0
        return cls(tuple(edges), tuple(paths), tuple(places), tuple(order), tuple(shared), size)

    def row(self, sequences: Iterable[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Return the token ids of the row, and the position of each in its sequences, both int64 [size]."""
        ids, positions = np.zeros(self.size, np.int64), np.zeros(self.size, np.int64)
        for sequence, places in zip(sequences, self.places, strict=True):
            ids[places], positions[places] = sequence, np.arange(len(places))
        return ids, positions


def _lay_out(
    lengths: Sequence[int], order: Sequence[int], shared: Sequence[int]
) -> tuple[list[Edge], list[tuple[int, ...]]]:
    """Return the edges of sequences that are in lexicographic order, and each sequence's path."""
    edges: list[Edge] = []
    paths: list[tuple[int, ...]] = [()] * len(order)

    def add(first: int, last: int, depth: int, path: tuple[int, ...]) -> None:
        """Add what sequences `order[first:last]` have beyond their `depth` tokens on the edges of `path`."""
        heads = [number for number in range(first, last) if number == first or shared[number] <= depth]
        branches = [range(start, stop) for start, stop in pairwise([*heads, last])]
        # Single sequences come last and from long to short, so that they are neighbours of similar lengths.
        branches.sort(key=lambda branch: -lengths[order[branch[0]]] if len(branch) == 1 else -np.inf)
        for branch in branches:
            stop = min((shared[number] for number in branch[1:]), default=lengths[order[branch[0]]])
            start, index, below = edges[-1].stop if edges else 0, len(edges), path
            if stop > depth:
                end = start + stop - depth
                edges.append(Edge(start, end, end, depth, len(branch)))
                below = (*path, index)
            if len(branch) == 1:
                paths[order[branch[0]]] = below
            else:
                add(branch.start, branch.stop, stop, below)
                edges[index] = replace(edges[index], end=edges[-1].stop)

    add(0, len(order), 0, ())
    return edges, paths


_SIMILAR = 0.75  # a block's shortest edge is at least this share of its longest, which bounds the padding
_SAW_NOTHING = 1e30  # a log-sum-exp so large that the weights exp(score - it), recomputed going back, are all 0


@dataclass(frozen=True, slots=True)
class Block:
    """Holds neighbouring edges that attend to themselves as one batch, padded to the first, which is longest.

    `start` is the place of the first one's first token in the row, and `lengths` are in tokens. `covered` says that
    there are edges above, and `forks` that there are some below, as only a block of one edge has.
    """

    start: int
    lengths: tuple[int, ...]
    covered: bool
    forks: bool

    @property
    def end(self) -> int:
        """The place after the block's last token."""
        return self.start + sum(self.lengths)

    def padding(self, device: torch.device) -> tuple[Tensor, Tensor] | None:
        """Return which token of the row stands at [edge, position], and whether it is real; `None` without padding."""
        if self.lengths[0] == self.lengths[-1]:
            return None
        lengths = torch.tensor(self.lengths)
        positions = torch.arange(self.lengths[0])
        real = positions < lengths[:, None]
        starts = self.start + lengths.cumsum(0) - lengths
        return (starts[:, None] + positions.minimum(lengths[:, None] - 1)).to(device), real.to(device)

    def rows(self, tokens: Tensor, index: Tensor | None) -> Tensor:
        """Return the block of a row [heads, tokens, ...] as [edges, heads, positions, ...].

        `index` is the first part of `padding`; without it the result is a view, which may be written to.
        """
        if index is not None:
            return tokens[:, index].transpose(0, 1)
        return tokens[:, self.start : self.end].unflatten(1, (len(self.lengths), self.lengths[0])).transpose(0, 1)


def make_blocks(edges: Sequence[Edge]) -> list[Block]:
    """Return the edges of a row in blocks: neighbours without edges below, of similar lengths from long to short."""
    blocks: list[Block] = []
    for edge in edges:
        length, last = edge.stop - edge.start, blocks[-1] if blocks else None
        block = Block(edge.start, (length,), covered=edge.depth > 0, forks=edge.end > edge.stop)
        if (
            last is not None
            and not (last.forks or block.forks)
            and (last.end, last.covered) == (block.start, block.covered)
            and _SIMILAR * last.lengths[0] <= length <= last.lengths[-1]
        ):
            blocks[-1] = replace(last, lengths=(*last.lengths, length))
        else:
            blocks.append(block)
    return blocks


class PackedTree:
    """Computes the attention of a row that is a tree, for any number of passes over rows of this shape."""

    def __init__(self, edges: Sequence[Edge]) -> None:
        self.forks = [edge for edge in edges if edge.end > edge.stop]
        self.blocks = make_blocks(edges)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Return the attention's output [1, heads, tokens, width], with gradients; the query has the same shape."""
        del layer  # all layers are alike
        return _PackedAttention.apply(query, key, value, self, scale)  # type: ignore[reportReturnType]


class _PackedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Saved, query: Tensor, key: Tensor, value: Tensor, tree: PackedTree, scale: float):
        q, k, v = query[0], key[0], value[0]
        # Tokens before heads in memory: models transpose the output to that and would copy it otherwise.
        output = q.new_empty(q.shape[1], q.shape[0], q.shape[2]).transpose(0, 1)
        high = q.dtype if q.dtype == torch.float64 else torch.float32  # the kernels give it so from half precision, too
        log_sum_exp = torch.empty(q.shape[:2], dtype=high, device=q.device)
        # The buffers start empty: what a token sees first is copied, the rest is merged.
        for fork in tree.forks:
            keys, below = slice(fork.start, fork.stop), slice(fork.stop, fork.end)
            found, sums = attend(q[None, :, below], k[None, :, keys], v[None, :, keys], scale=scale)
            _put(output[None, :, below], log_sum_exp[None, :, below], found, sums, merges=fork.depth > 0)
        for block in tree.blocks:
            index, real = block.padding(q.device) or (None, None)
            found, sums = attend(*(block.rows(tensor, index) for tensor in (q, k, v)), scale=scale, causal=True)
            if real is not None:  # back to tokens without padding
                found, sums = found.transpose(0, 1)[:, real], sums.transpose(0, 1)[:, real]
                whole = output[:, block.start : block.end], log_sum_exp[:, block.start : block.end]
            else:
                whole = block.rows(output, None), block.rows(log_sum_exp, None)
            _put(*whole, found, sums, merges=block.covered)
        ctx.save_for_backward(q, k, v, output, log_sum_exp)
        ctx.tree, ctx.scale = tree, scale
        return output.unsqueeze(0)

    @staticmethod
    def backward(ctx: _Saved, *gradients: Tensor):  # type: ignore[reportIncompatibleMethodOverride]
        q, k, v, output, log_sum_exp = ctx.saved_tensors
        by_query, by_key, by_value = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        whole = (gradients[0][0], q, k, v, output, log_sum_exp)
        for fork in ctx.tree.forks:
            keys, below = slice(fork.start, fork.stop), slice(fork.stop, fork.end)
            gradient, queries, _, _, outputs, sums = (tensor[None, :, below] for tensor in whole)
            above = k[None, :, keys], v[None, :, keys]
            found = attend_backward(gradient, queries, *above, outputs, sums, scale=ctx.scale)
            _assign(by_query[:, below], found[0][0], adds=fork.depth > 0)
            by_key[:, keys], by_value[:, keys] = found[1][0], found[2][0]
        for block in ctx.tree.blocks:
            index, real = block.padding(q.device) or (None, None)
            rows = [block.rows(tensor, index) for tensor in whole]
            if real is not None:  # padding repeats a real token, and must add nothing to the gradients of the others
                rows[-1] = rows[-1].masked_fill(~real[:, None], _SAW_NOTHING)
            found = attend_backward(*rows, scale=ctx.scale, causal=True)  # type: ignore[reportCallIssue]
            of_query, of_key, of_value = (
                f.transpose(0, 1).flatten(1, 2) if real is None else f.transpose(0, 1)[:, real] for f in found
            )
            part = slice(block.start, block.end)
            _assign(by_query[:, part], of_query, adds=block.covered)
            _assign(by_key[:, part], of_key, adds=block.forks)
            _assign(by_value[:, part], of_value, adds=block.forks)
        return by_query.unsqueeze(0), by_key.unsqueeze(0), by_value.unsqueeze(0), None, None


class _Saved(torch.autograd.function.FunctionCtx):
    """Declares what `_PackedAttention` keeps in its context."""

    tree: PackedTree
    scale: float
    saved_tensors: tuple[Tensor, ...]


def _put(output: Tensor, log_sum_exp: Tensor, found: Tensor, sums: Tensor, *, merges: bool) -> None:
    if merges:
        merge_(output, log_sum_exp, found, sums)
    else:
        output.copy_(found)
        log_sum_exp.copy_(sums)


def _assign(target: Tensor, found: Tensor, *, adds: bool) -> None:
    target.add_(found) if adds else target.copy_(found)
