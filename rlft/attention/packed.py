"""Attention for training on groups that are packed into one row without padding, each prompt before its completions.

    [prompt a | a's 1st completion | a's 2nd | ... | prompt b | b's 1st | ...]

Every completion sees its own prompt and itself. Its keys are the prompt's, all of them, and its own, causally: two
parts that `rlft.attention.partial` puts together, so no mask of tokens times tokens is made and no key is copied for
each completion. `rlft.training.batching` makes such rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rlft.attention.partial import attend, attend_backward, merge_

_SIMILAR = 0.75  # a block's shortest completion is at least this share of its longest, which bounds the padding
_SAW_NOTHING = 1e30  # a log-sum-exp so large that the weights exp(score - it), recomputed going back, are all 0


@dataclass(frozen=True, slots=True)
class Group:
    """Says where a prompt and its completions stand in the row.

    The prompt has `prompt` tokens from `start` on, 0 for sequences that have none in common. The completions follow it,
    of as many tokens as `lengths` says, which run from long to short and may be 0.
    """

    start: int
    prompt: int
    lengths: tuple[int, ...]

    @property
    def completions(self) -> int:
        """The place of the first completion's first token."""
        return self.start + self.prompt

    @property
    def end(self) -> int:
        """The place after the group's last token, where the next group starts."""
        return self.completions + sum(self.lengths)

    def blocks(self) -> Iterator[Block]:
        """Yield the completions that have tokens, in blocks of similar lengths."""
        lengths = tuple(length for length in self.lengths if length)
        start, first = self.completions, 0
        for number in range(1, len(lengths) + 1):
            if number == len(lengths) or lengths[number] < _SIMILAR * lengths[first]:
                block = Block(start, lengths[first:number])
                yield block
                start, first = block.end, number


@dataclass(frozen=True, slots=True)
class Block:
    """Holds neighbouring completions that attend to themselves as one batch, padded to the first, which is longest.

    `start` is the place of the first one's first token in the row, and `lengths` are in tokens.
    """

    start: int
    lengths: tuple[int, ...]

    @property
    def end(self) -> int:
        """The place after the block's last token."""
        return self.start + sum(self.lengths)

    def padding(self, device: torch.device) -> tuple[Tensor, Tensor] | None:
        """Return which token of the row stands at [completion, position], and whether it is one and no padding.

        Returns `None` for a block without padding.
        """
        if self.lengths[0] == self.lengths[-1]:
            return None
        lengths = torch.tensor(self.lengths)
        positions = torch.arange(self.lengths[0])
        real = positions < lengths[:, None]
        starts = self.start + lengths.cumsum(0) - lengths
        return (starts[:, None] + positions.minimum(lengths[:, None] - 1)).to(device), real.to(device)

    def rows(self, tokens: Tensor, index: Tensor | None) -> Tensor:
        """Return the block of a row [heads, tokens, ...] as [completions, heads, positions, ...].

        `index` is the first part of `padding`; without it the result is a view, which may be written to.
        """
        if index is not None:
            return tokens[:, index].transpose(0, 1)
        return tokens[:, self.start : self.end].unflatten(1, (len(self.lengths), self.lengths[0])).transpose(0, 1)


class PackedGroups:
    """Computes the attention of a row of groups, for any number of passes over rows of this shape."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = tuple(groups)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Return the attention's output [1, heads, tokens, width], with gradients; the query has the same shape."""
        del layer  # all layers are alike
        return _PackedAttention.apply(query, key, value, self.groups, scale)  # type: ignore[reportReturnType]


class _PackedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Saved, query: Tensor, key: Tensor, value: Tensor, groups: tuple[Group, ...], scale: float):
        q, k, v = query[0], key[0], value[0]
        # Tokens before heads in memory: models transpose the output to that and would copy it otherwise.
        output = q.new_empty(q.shape[1], q.shape[0], q.shape[2]).transpose(0, 1)
        high = q.dtype if q.dtype == torch.float64 else torch.float32  # the kernels give it so from half precision, too
        log_sum_exp = torch.empty(q.shape[:2], dtype=high, device=q.device)
        for group in groups:
            _forward_group(q, k, v, output, log_sum_exp, group, scale)
        ctx.save_for_backward(q, k, v, output, log_sum_exp)
        ctx.groups, ctx.scale = groups, scale
        return output.unsqueeze(0)

    @staticmethod
    def backward(ctx: _Saved, *gradients: Tensor):  # type: ignore[reportIncompatibleMethodOverride]
        q, k, v, output, log_sum_exp = ctx.saved_tensors
        by_query, by_key, by_value = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        whole = (gradients[0][0], q, k, v, output, log_sum_exp)
        for group in ctx.groups:
            _backward_group(whole, (by_query, by_key, by_value), group, ctx.scale)
        return by_query.unsqueeze(0), by_key.unsqueeze(0), by_value.unsqueeze(0), None, None


class _Saved(torch.autograd.function.FunctionCtx):
    """Declares what `_PackedAttention` keeps in its context."""

    groups: tuple[Group, ...]
    scale: float
    saved_tensors: tuple[Tensor, ...]


def _forward_group(
    q: Tensor, k: Tensor, v: Tensor, output: Tensor, log_sum_exp: Tensor, group: Group, scale: float
) -> None:
    """Fill the group's part of `output` [heads, tokens, width] and `log_sum_exp` [heads, tokens]."""
    prompt, rest = slice(group.start, group.completions), slice(group.completions, group.end)
    keys, values = k[None, :, prompt], v[None, :, prompt]
    for part, causal in ((prompt, True), (rest, False)):
        if group.prompt and part.stop > part.start:
            found, sums = attend(q[None, :, part], keys, values, scale=scale, causal=causal)
            output[:, part], log_sum_exp[:, part] = found[0], sums[0]
    for block in group.blocks():
        index, real = block.padding(q.device) or (None, None)
        rows = [block.rows(tensor, index) for tensor in (q, k, v)]
        found, sums = attend(*rows, scale=scale, causal=True)
        if real is not None:  # back to tokens without padding
            found, sums = found.transpose(0, 1)[:, real], sums.transpose(0, 1)[:, real]
            whole = output[:, block.start : block.end], log_sum_exp[:, block.start : block.end]
        else:
            whole = block.rows(output, None), block.rows(log_sum_exp, None)
        if group.prompt:
            merge_(*whole, found, sums)
        else:
            whole[0].copy_(found)
            whole[1].copy_(sums)


def _backward_group(
    whole: tuple[Tensor, ...], gradients: tuple[Tensor, Tensor, Tensor], group: Group, scale: float
) -> None:
    """Fill the group's part of the gradients of query, key and value.

    The buffers start empty, so the order matters: each slice of them is assigned before anything is added to it.
    """
    gradient, q, k, v, output, log_sum_exp = whole
    prompt, rest = slice(group.start, group.completions), slice(group.completions, group.end)
    if group.prompt:
        for target, found in zip(gradients, _backward_part(whole, prompt, prompt, scale, causal=True), strict=True):
            target[:, prompt] = found[0]
    if rest.stop == rest.start:
        return
    if group.prompt:
        by_query, by_key, by_value = _backward_part(whole, rest, prompt, scale, causal=False)
        gradients[0][:, rest] = by_query[0]
        gradients[1][:, prompt] += by_key[0]
        gradients[2][:, prompt] += by_value[0]
    else:
        gradients[0][:, rest] = 0
    for block in group.blocks():
        index, real = block.padding(q.device) or (None, None)
        rows = [block.rows(tensor, index) for tensor in (gradient, q, k, v, output, log_sum_exp)]
        if real is not None:  # padding repeats a real token, and must add nothing to the gradients of the others
            rows[-1] = rows[-1].masked_fill(~real[:, None], _SAW_NOTHING)
        found = attend_backward(*rows, scale=scale, causal=True)  # type: ignore[reportCallIssue]
        by_query, by_key, by_value = (
            f.transpose(0, 1).flatten(1, 2) if real is None else f.transpose(0, 1)[:, real] for f in found
        )
        part = slice(block.start, block.end)
        gradients[0][:, part] += by_query
        gradients[1][:, part], gradients[2][:, part] = by_key, by_value


def _backward_part(
    whole: tuple[Tensor, ...], queries: slice, keys: slice, scale: float, *, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of these queries, keys and values, each [1, heads, tokens, width]."""
    gradient, q, k, v, output, log_sum_exp = (tensor[None] for tensor in whole)
    return attend_backward(
        gradient[:, :, queries],
        q[:, :, queries],
        k[:, :, keys],
        v[:, :, keys],
        output[:, :, queries],
        log_sum_exp[:, :, queries],
        scale=scale,
        causal=causal,
    )
