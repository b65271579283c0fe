"""Divides the rollouts of an update among the trainers that train on it together."""

from __future__ import annotations

from collections.abc import Sequence

from rlft.training.batching import Pair, packed_tokens


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
