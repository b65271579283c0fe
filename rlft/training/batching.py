"""From stored rollouts to tensors, in parts that fit a token budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rlft.types import Rollout


@dataclass(frozen=True, slots=True)
class Batch:
    """Rollouts as right-padded tensors, all [rollouts, tokens] but `advantages` [rollouts].

    `mask` is 1 where the model sampled the token; `logprobs` are those of the sampling.
    """

    token_ids: Tensor
    attention: Tensor
    mask: Tensor
    logprobs: Tensor
    advantages: Tensor

    @property
    def first_sampled(self) -> int:
        """The first column any row was sampled in; earlier columns need no logits."""
        return int(self.mask.any(0).nonzero()[0])


def make_batch(rollouts: Sequence[Rollout], advantages: Sequence[float], device: torch.device) -> Batch:
    """Stack rollouts to the length of the longest."""
    width = max(len(rollout.token_ids) for rollout in rollouts)
    shape = (len(rollouts), width)
    token_ids, attention = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape, dtype=torch.int64)
    mask, logprobs = torch.zeros(shape), torch.zeros(shape)
    for row, rollout in enumerate(rollouts):
        length = len(rollout.token_ids)
        token_ids[row, :length] = torch.as_tensor(rollout.token_ids, dtype=torch.int64)
        attention[row, :length] = 1
        mask[row, :length] = torch.as_tensor(rollout.loss_mask, dtype=torch.float32)
        logprobs[row, :length] = torch.as_tensor(rollout.logprobs)
    weights = torch.tensor(advantages, dtype=torch.float32)
    return Batch(*(t.to(device) for t in (token_ids, attention, mask, logprobs, weights)))


def split_by_tokens(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Indices in parts whose padded size, rows times longest, stays within `budget` tokens; one row always goes.

    Rows are taken in the order of their length, so that little is padding.
    """
    part: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if part and (len(part) + 1) * lengths[index] > budget:
            yield part
            part = []
        part.append(index)
    if part:
        yield part
