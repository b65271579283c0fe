"""Logits of a linear output layer, computed in blocks of tokens times vocabulary that fit a buffer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

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
