"""Makes tensors of stored rollouts, in parts that fit a token budget, and divides rollouts among trainers.

A part is encoded in one of two ways: packed, with each common beginning once (`pack_tree`), or as one padded row per
rollout (`pad_rows`). Both give a `Batch`, which says where every sampled token is predicted, so that the code after
them is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rlft.errors import DistributedError
from rlft.models import Policy
from rlft.models.attention.packed import PackedTree, Tree
from rlft.types import Rollout

Advantage = float | np.ndarray
"""The advantage of a rollout, or of each token after its prompt, float64 (completion tokens,)."""
Pair = tuple[Rollout, Advantage]


@dataclass(frozen=True, slots=True)
class Batch:
    """Holds rollouts as the model's inputs, and what is known of their sampled tokens.

    The inputs are `token_ids` and `positions` [rows, width], with either `attention` (packed, 1 row) or
    `attention_mask` [rows, width] (padded). By rollout there are `mask` (true where the model sampled the token) and
    `logprobs` (recorded at sampling), both [rollouts, tokens], counted from the end of the prompt, and `advantages`,
    [rollouts], or [rollouts, tokens] if a rollout has one for each of its tokens. The sampled tokens have the ids
    `targets`; token i is predicted at place `sources[i]` of the flattened rows, and its place in `mask` is
    (`rollouts[i]`, `columns[i]`). `tokens_of_sequences` is what the inputs would come to one by one.
    """

    token_ids: Tensor
    positions: Tensor
    attention_mask: Tensor | None
    attention: PackedTree | None
    sources: Tensor
    targets: Tensor
    rollouts: Tensor
    columns: Tensor
    mask: Tensor
    logprobs: Tensor
    advantages: Tensor
    tokens_of_sequences: int

    def spread(self, values: Tensor) -> Tensor:
        """Return one value per sampled token as [rollouts, tokens], with zeros elsewhere; gradients flow through it."""
        return values.new_zeros(self.mask.shape).index_put((self.rollouts, self.columns), values)


def pack_tree(pairs: Sequence[Pair], device: torch.device) -> Batch:
    """Make a batch of one row in which every common beginning stands once, without padding.

    Raises ValueError for a rollout without a prompt, as `pad_rows` does.
    """
    tree = _tree(pairs)
    ids, positions = (torch.from_numpy(part)[None] for part in tree.row(map(_read, pairs)))
    # A completion's first token is predicted at the prompt's last one, which all that share the prompt have in common.
    sources = [places[max(pair[0].prompt_length - 1, 0) :] for pair, places in zip(pairs, tree.places, strict=True)]
    return _batch(pairs, ids, positions, None, PackedTree(tree.edges), sources, device)


def pad_rows(pairs: Sequence[Pair], device: torch.device) -> Batch:
    """Make a batch with a row per rollout, prompt included, padded on the right."""
    rows = [_read(pair) for pair in pairs]
    ids, attention = _pad(rows).long(), _pad([np.ones(len(row), np.int64) for row in rows])
    width = ids.shape[1]
    sources = [
        number * width + np.arange(pair[0].prompt_length - 1, len(row))
        for number, (pair, row) in enumerate(zip(pairs, rows, strict=True))
    ]
    return _batch(pairs, ids, torch.arange(width).expand(ids.shape), attention, None, sources, device)


def split_tree(pairs: Sequence[Pair], budget: int) -> list[list[Pair]]:
    """Return parts whose packed size is at most `budget` tokens: those that have the fewest tokens, then the fewest.

    What two parts have in common is encoded in both. A rollout that exceeds the budget alone is a part of its own.
    """
    tree, count = _tree(pairs), len(pairs)
    lengths = np.array([len(tree.places[number]) for number in tree.order], np.int64)
    ends = np.cumsum(lengths - np.array(tree.shared, np.int64))
    best, begins = np.full(count + 1, np.iinfo(np.int64).max), np.zeros(count + 1, np.int64)
    best[0] = 0
    for start in range(count):
        sizes = lengths[start] + ends[start:] - ends[start]  # of the parts from here that end before 1, 2, ... more
        fitting = slice(0, max(1, int(np.searchsorted(sizes, budget, side="right"))))
        costs = best[start] + sizes[fitting] * (count + 1) + 1  # no number of parts outweighs a token
        stops = start + 1 + np.flatnonzero(costs <= best[start + 1 :][fitting])
        best[stops], begins[stops] = costs[stops - start - 1], start
    stops = [count]
    while stops[-1]:
        stops.append(int(begins[stops[-1]]))
    return [[pairs[number] for number in tree.order[start:stop]] for start, stop in pairwise(reversed(stops))]


def packed_tokens(pairs: Sequence[Pair]) -> int:
    """Return how many tokens long the row is that `pack_tree` makes of these rollouts."""
    return _tree(pairs).size


def split_by_tokens(pairs: Sequence[Pair], budget: int) -> Iterator[list[Pair]]:
    """Yield parts whose padded size, rows times longest, is at most `budget` tokens.

    Rollouts are taken in the order of their length, so that little is padding. One that exceeds the budget alone is a
    part of its own.
    """
    part: list[Pair] = []
    for pair in sorted(pairs, key=lambda pair: len(pair[0].token_ids)):
        if part and (len(part) + 1) * len(pair[0].token_ids) > budget:
            yield part
            part = []
        part.append(pair)
    if part:
        yield part


def _tree(pairs: Sequence[Pair]) -> Tree:
    return Tree.of([_read(pair) for pair in pairs], [rollout.prompt_length for rollout, _ in pairs])


def _read(pair: Pair) -> np.ndarray:
    """Return the tokens that the model must read: the prompt, and those before the last sampled one."""
    rollout, sampled = pair[0], np.flatnonzero(pair[0].loss_mask)
    return rollout.token_ids[: max([rollout.prompt_length, *sampled[-1:]])]


def _batch(
    pairs: Sequence[Pair],
    token_ids: Tensor,
    positions: Tensor,
    attention_mask: Tensor | None,
    attention: PackedTree | None,
    predicted_at: Sequence[np.ndarray],
    device: torch.device,
) -> Batch:
    """Make a batch of the model's inputs and what is known of the sampled tokens.

    `predicted_at` holds, for each rollout, the place in the flattened rows where each of its columns is predicted.
    """
    for rollout, _ in pairs:
        if rollout.prompt_length < 1:
            raise ValueError(f"rollout {rollout.rollout_id} has no prompt: nothing predicts its first token")
    rollouts = [rollout for rollout, _ in pairs]
    mask = _pad([rollout.loss_mask[rollout.prompt_length :] for rollout in rollouts])
    logprobs = _pad([rollout.logprobs[rollout.prompt_length :] for rollout in rollouts])
    targets = _pad([rollout.token_ids[rollout.prompt_length :] for rollout in rollouts])
    sources = [places[row[: len(places)]] for places, row in zip(predicted_at, mask.numpy(), strict=True)]
    rows, columns = mask.nonzero(as_tuple=True)
    return Batch(
        token_ids=token_ids.to(device),
        positions=positions.to(device),
        attention_mask=None if attention_mask is None else attention_mask.to(device),
        attention=attention,
        sources=torch.from_numpy(np.concatenate(sources)).to(device),
        targets=targets[mask].long().to(device),
        rollouts=rows.to(device),
        columns=columns.to(device),
        mask=mask.to(device),
        logprobs=logprobs.where(mask, 0.0).to(device),
        advantages=_advantages(pairs).to(device),
        tokens_of_sequences=sum(len(_read(pair)) for pair in pairs),
    )


def _advantages(pairs: Sequence[Pair]) -> Tensor:
    """Return float32 [rollouts], or [rollouts, tokens] if there is an advantage per token in one of them."""
    if not any(isinstance(advantage, np.ndarray) for _, advantage in pairs):
        return torch.tensor([advantage for _, advantage in pairs], dtype=torch.float32)
    return _pad([np.full(rollout.completion_length, advantage, np.float32) for rollout, advantage in pairs])


def _pad(rows: Sequence[np.ndarray]) -> Tensor:
    return pad_sequence([torch.from_numpy(np.ascontiguousarray(row)) for row in rows], batch_first=True)


_Part = TypeVar("_Part")


class World:
    """A trainer that is alone. Worlds of several override `rank`, `size` and `gather`, which all must call together."""

    rank = 0
    size = 1

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """Return the numbers of every trainer, by rank; trainers may have differently many."""
        return [list(numbers)]

    def check_alike(self, policy: Policy) -> None:
        """Raise DistributedError if the trainers' devices read the policy in different ways.

        They would divide an update's rollouts differently, and train some of them twice or never.
        """
        ways = self.gather([float(policy.shares_prompts), float(len(policy.fusible))])
        if any(each != ways[0] for each in ways):
            raise DistributedError(
                f"the trainers' devices do not compute this model alike (shared prompts, fused layers: {ways})",
                where="distributed",
                fix="train on GPUs of one kind with one driver, or with fewer trainers",
            )

    def total(self, numbers: Sequence[float]) -> list[float]:
        """Return the sums over the trainers, each of which has as many numbers; they are the same bits everywhere."""
        return [sum(column) for column in zip(*self.gather(numbers), strict=True)]

    def share(self, groups: Sequence[Sequence[Pair]], *, shares_prompts: bool) -> list[list[Pair]]:
        """Return the groups that this trainer encodes."""
        return partition(groups, self.size, shares_prompts=shares_prompts)[self.rank]

    def level(self, parts: Sequence[_Part]) -> list[_Part | None]:
        """Return this trainer's parts, and `None` as often as another has more.

        Where weights are sharded, every pass over the model gathers them from all trainers: one that has nothing left
        to encode still has to take part.
        """
        most = max(int(count) for (count,) in self.gather([len(parts)]))
        return [*parts, *[None] * (most - len(parts))]


ALONE = World()


def partition(groups: Sequence[Sequence[Pair]], trainers: int, *, shares_prompts: bool) -> list[list[list[Pair]]]:
    """Return the groups of each of the `trainers`, at least 1, so that all have about as many tokens to encode.

    A group is given away whole, since its prompt would otherwise be encoded by several trainers. The largest is given
    away first, and each to the trainer that has the fewest tokens so far (longest processing time first, Graham 1969):
    none then has more than 4/3 of what the best division gives the one with most. Each trainer has its groups in the
    order in which they came; a trainer may have none. With `shares_prompts` a prompt counts once in its group,
    otherwise once in every rollout. Where two are equal the first is taken, so the division depends on nothing but its
    arguments.
    """
    costs = [_tokens(group, shares_prompts=shares_prompts) for group in groups]
    loads, owner = [0] * trainers, [0] * len(groups)
    for number in sorted(range(len(groups)), key=lambda number: -costs[number]):
        owner[number] = loads.index(min(loads))
        loads[owner[number]] += costs[number]
    return [
        [list(group) for group, mine in zip(groups, owner, strict=True) if mine == trainer]
        for trainer in range(trainers)
    ]


def _tokens(group: Sequence[Pair], *, shares_prompts: bool) -> int:
    return packed_tokens(group) if shares_prompts else sum(len(rollout.token_ids) for rollout, _ in group)
