"""Log-probabilities of chosen tokens from hidden states and a linear layer, in blocks of tokens times vocabulary."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

HALVES = (torch.bfloat16, torch.float16)
CPU_CHUNK_BYTES = 16 << 20  # the fastest of 2 to 64 MiB, by a small margin
GPU_CHUNK_BYTES = 64 << 20


def precision(tensor: Tensor) -> torch.dtype:
    """Return the type to compute in: float64 for float64, else float32."""
    return torch.promote_types(tensor.dtype, torch.float32)


def chunk_bytes(tensor: Tensor) -> int:
    """Return how large a buffer of logits should be on the tensor's device."""
    return GPU_CHUNK_BYTES if tensor.is_cuda else CPU_CHUNK_BYTES


@dataclass(frozen=True, slots=True)
class Link:
    """Makes the logits of the softmax from a layer's output: softcap * tanh(scale * output / softcap).

    Without a softcap they are scale * output. `selected_logprobs` divides both numbers by the temperature beforehand.
    """

    scale: float
    softcap: float | None
    with_entropy: bool = True

    def cap(self, scaled: Tensor) -> tuple[Tensor, Tensor | None]:
        """Cap scaled logits in place; return them and the derivative of capping, `None` where there is no cap."""
        if self.softcap is None:
            return scaled, None
        scaled.div_(self.softcap).tanh_()
        slope = 1 - scaled.square()
        return scaled.mul_(self.softcap), slope


@torch.no_grad()
def blockwise_logits(hidden: Tensor, linear: nn.Linear, link: Link) -> Tensor:
    """Return all logits [tokens, vocabulary] of hidden states [tokens, width], without gradient.

    They are float32 also for half precision, where the layer itself would round its output to three digits.
    """
    blocks = Blocks(hidden, linear.weight, linear.bias, link, chunk_bytes(hidden))
    logits = hidden.new_empty(len(hidden), len(linear.weight), dtype=blocks.dtype)
    for tokens in blocks.token_slices():
        for words in blocks.vocabulary_slices():
            logits[tokens, words] = blocks.logits(tokens, words)[0]
    return logits


class Blocks:
    """Computes capped logits of a linear layer in blocks, each written over the last one.

    A block has at most `rows` tokens and `columns` words of the vocabulary, and at most `max_bytes`.
    """

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None, link: Link, max_bytes: int) -> None:
        self.hidden, self.weight, self.bias, self.link = hidden, weight, bias, link
        self.dtype = precision(hidden)
        size = max(1, max_bytes // self.dtype.itemsize)
        widest = min(len(weight), max(1, size // hidden.shape[1]))  # so that a block of the weight is as small, too
        # Four times as wide as high: the weight is read once per `rows` tokens, `hidden` once per `columns` words.
        columns = min(widest, 2 * math.isqrt(size))
        self.rows = max(1, min(len(hidden), size // columns))
        self.columns = min(widest, size // self.rows)
        self.buffer = hidden.new_empty(self.rows * self.columns, dtype=self.dtype)

    def token_slices(self) -> Iterator[slice]:
        """Yield the tokens of each row of blocks."""
        yield from (slice(i, min(i + self.rows, len(self.hidden))) for i in range(0, len(self.hidden), self.rows))

    def vocabulary_slices(self) -> Iterator[slice]:
        """Yield the words of each column of blocks."""
        yield from (slice(i, min(i + self.columns, len(self.weight))) for i in range(0, len(self.weight), self.columns))

    def logits(self, tokens: slice, words: slice) -> tuple[Tensor, Tensor | None]:
        """Return the logits [tokens, words] of a block, and the derivative of the cap where there is one."""
        shape = tokens.stop - tokens.start, words.stop - words.start
        logits = self.buffer[: math.prod(shape)].view(shape)
        multiply_(logits, self.hidden[tokens], self.weight[words].t(), beta=0, alpha=self.link.scale)
        if self.bias is not None:
            logits.add_(self.bias[words], alpha=self.link.scale)
        return self.link.cap(logits)


def multiply_(out: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1) -> None:
    """Set out = beta * out + alpha * left @ right in the precision of `out`.

    A GPU multiplies half-precision inputs as they are and sums in float32, which is faster than casting them before.
    """
    if out.is_cuda and right.dtype in HALVES:
        product = torch.mm(left.to(right.dtype), right, out_dtype=out.dtype)
        if beta == 0:
            out.copy_(product.mul_(alpha))  # `out` may be uninitialised and hold NaN, which 0 times it would keep
        else:
            out.mul_(beta).add_(product, alpha=alpha)
    else:
        out.addmm_(left.to(out.dtype), right.to(out.dtype), beta=beta, alpha=alpha)


FLOOR = -1e4  # stands for log(0): exp of it is 0 in every precision, and 0 times it is 0, which for -inf would be NaN


def blockwise_logprobs(
    hidden: Tensor, linear: nn.Linear, token_ids: Tensor, link: Link, max_bytes: int
) -> tuple[Tensor, Tensor | None]:
    """Return log-probabilities of `token_ids` with gradient, and entropies without, both [tokens].

    The softmax runs over blocks of the vocabulary (online, arXiv:1805.02867). The gradient of each log-probability to
    its hidden state is computed in the forward pass, to be multiplied by the incoming gradient later, so that a frozen
    layer needs no logits in the backward pass. For a trained layer they are computed again, and its gradient is summed
    in float32, one block of the vocabulary at a time.

    Args:
        hidden: [tokens, width].
        linear: The output layer, from width to vocabulary.
        token_ids: Int [tokens].
        link: Makes the logits of the softmax from the layer's output.
        max_bytes: Size of a block of logits; two or three such buffers exist at a time.
    """
    return _Blockwise.apply(hidden, linear.weight, linear.bias, token_ids, link, max_bytes, torch.is_grad_enabled())


class _RunningSoftmax:
    """Computes a softmax over a vocabulary that comes in blocks (arXiv:1805.02867).

    Of the blocks so far, each [tokens]: `top` is the largest logit, `total` the sum of exp(logit - top), `weighted` the
    sum of (logit - top) * exp(logit - top), and `chosen` the logit of the token's own id.
    """

    def __init__(self, token_ids: Tensor, dtype: torch.dtype, with_entropy: bool) -> None:
        zeros = torch.zeros(token_ids.shape, dtype=dtype, device=token_ids.device)
        self.token_ids, self.with_entropy = token_ids, with_entropy
        self.top = torch.full_like(zeros, torch.finfo(dtype).min)  # not -inf: -inf minus -inf is NaN
        self.total, self.weighted, self.chosen = zeros, zeros, zeros

    def add(self, logits: Tensor, start: int, spare: Tensor) -> tuple[Tensor, Tensor]:
        """Take in a block of logits [tokens, columns] whose first column is `start` in the vocabulary.

        Overwrites `logits` and `spare`. Returns exp(logits - top), in one of them, and the factor [tokens] by which
        sums over earlier blocks are to be multiplied, as `top` may have risen.
        """
        inside, column = _place(self.token_ids, start, logits.shape[1])
        self.chosen = torch.where(inside, logits.gather(1, column).squeeze(1), self.chosen)
        top = torch.maximum(self.top, logits.amax(1))
        step = (self.top - top).clamp_(min=FLOOR)
        shrink = step.exp()
        logits.sub_(top[:, None])
        if self.with_entropy:
            exponentials = torch.exp(logits.clamp_(min=FLOOR), out=spare)
            dots = logits.mul_(exponentials).sum(1)
            self.weighted = shrink * (self.weighted + step * self.total) + dots
        else:
            exponentials = logits.exp_()
        self.total = shrink * self.total + exponentials.sum(1)
        self.top = top
        return exponentials, shrink

    @property
    def logprobs(self) -> Tensor:
        """The log-probabilities of the chosen tokens, once all blocks are in."""
        return self.chosen - self.top - self.total.log()

    @property
    def entropy(self) -> Tensor | None:
        """The entropies in nats, once all blocks are in."""
        return self.total.log() - self.weighted / self.total if self.with_entropy else None


def _place(token_ids: Tensor, start: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return whether each token id lies in the block [tokens], and in which of its columns [tokens, 1].

    For a token outside the block the column is one of the block's all the same, so that it can be gathered from.
    """
    column = token_ids - start
    return (column >= 0) & (column < columns), column.clamp(0, columns - 1)[:, None]


class _Blockwise(Function):
    """Computes `blockwise_logprobs` and its gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        token_ids: Tensor,
        link: Link,
        max_bytes: int,
        grad_enabled: bool,
    ) -> Any:
        blocks = Blocks(hidden, weight, bias, link, max_bytes)
        spare = torch.empty_like(blocks.buffer)
        to_hidden, *to_layer = (grad_enabled and needed for needed in ctx.needs_input_grad[:3])
        directions = torch.empty_like(hidden) if to_hidden else None
        logprobs, entropy, top, total = (hidden.new_empty(len(hidden), dtype=blocks.dtype) for _ in range(4))
        for tokens in blocks.token_slices():
            softmax = _RunningSoftmax(token_ids[tokens], blocks.dtype, link.with_entropy)
            mean = hidden.new_zeros(hidden[tokens].shape, dtype=blocks.dtype)
            for words in blocks.vocabulary_slices():
                logits, slope = blocks.logits(tokens, words)
                exponentials, shrink = softmax.add(logits, words.start, spare[: logits.numel()].view_as(logits))
                if to_hidden:
                    exponentials = exponentials if slope is None else exponentials.mul_(slope)
                    multiply_(mean.mul_(shrink[:, None]), exponentials, weight[words])
            if directions is not None:
                directions[tokens] = _direction(softmax, mean, weight, link)
            logprobs[tokens], top[tokens], total[tokens] = softmax.logprobs, softmax.top, softmax.total
            if softmax.entropy is not None:
                entropy[tokens] = softmax.entropy
        layer = (hidden, weight, bias, token_ids, top, total) if any(to_layer) else (None,) * 6
        ctx.save_for_backward(directions, *layer)
        ctx.link, ctx.max_bytes = link, max_bytes
        ctx.mark_non_differentiable(entropy)
        return logprobs, entropy if link.with_entropy else None

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Any) -> Any:  # type: ignore[reportIncompatibleMethodOverride]
        grad = grad_outputs[0]
        directions, hidden, weight, bias, token_ids, top, total = ctx.saved_tensors
        to_hidden = None if directions is None else (directions * grad[:, None]).to(directions.dtype)
        to_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        to_bias = torch.zeros_like(bias) if ctx.needs_input_grad[2] else None
        if to_weight is not None or to_bias is not None:
            blocks = Blocks(hidden, weight, bias, ctx.link, ctx.max_bytes)
            softmax = token_ids, top, total
            _add_layer_gradients(blocks, softmax, grad * ctx.link.scale, to_weight, to_bias)
        return to_hidden, to_weight, to_bias, None, None, None, None


def _direction(softmax: _RunningSoftmax, mean: Tensor, weight: Tensor, link: Link) -> Tensor:
    """Return each log-probability's gradient to its hidden state: the token's row of the weight minus the mean row.

    `mean` [tokens, width] is the sum of the rows weighted by exp(logit - top), not yet divided by its total; it is
    overwritten. With a softcap each row is weighted by the cap's derivative as well.
    """
    own = weight[softmax.token_ids].to(mean.dtype)
    if link.softcap is not None:
        own = own * (1 - (softmax.chosen / link.softcap).square())[:, None]
    return mean.div_(-softmax.total[:, None]).add_(own).mul_(link.scale)


def _add_layer_gradients(
    blocks: Blocks,
    softmax: tuple[Tensor, Tensor, Tensor],
    grad: Tensor,
    to_weight: Tensor | None,
    to_bias: Tensor | None,
) -> None:
    """Fill the gradients of weight and bias, a block of the vocabulary at a time.

    `softmax` holds token ids, largest logits and sums of exponentials; `grad` is the gradient of the log-probabilities
    times the scale of the logits. All are [tokens].
    """
    token_ids, top, total = softmax
    for words in blocks.vocabulary_slices():
        columns = words.stop - words.start
        rows = blocks.hidden.new_zeros(columns, blocks.hidden.shape[1], dtype=blocks.dtype)
        sums = rows.new_zeros(columns)
        for tokens in blocks.token_slices():
            logits, slope = blocks.logits(tokens, words)
            derivative = logits.sub_(top[tokens, None]).exp_().mul_((-grad[tokens] / total[tokens])[:, None])
            inside, column = _place(token_ids[tokens], words.start, columns)
            derivative.scatter_add_(1, column, (grad[tokens] * inside)[:, None])
            derivative = derivative if slope is None else derivative.mul_(slope)
            if to_weight is not None:
                multiply_(rows, derivative.t(), blocks.hidden[tokens])
            sums += derivative.sum(0)
        if to_weight is not None:
            to_weight[words] = rows
        if to_bias is not None:
            to_bias[words] = sums
