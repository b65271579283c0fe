"""The trainers of one policy (data-parallel ranks), as one of them sees them, and how they divide rollouts.

All trainers call the same functions with the same arguments. Each encodes its share of an update's rollouts, and every
number that a decision depends on is that of all shares together, so that all trainers decide alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rlft.errors import DistributedError
from rlft.models import Policy
from rlft.training.batching import Pair, packed_tokens

_Part = TypeVar("_Part")


class World:
    """A trainer that is alone. Worlds of several override `rank`, `size` and `gather`, which all must call together."""

    rank = 0
    size = 1

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """Return the numbers of every trainer, by rank; trainers may have differently many."""
        return [list(numbers)]

    def total(self, numbers: Sequence[float]) -> list[float]:
        """Return the sums over the trainers, each of which has as many numbers; they are the same bits everywhere."""
        return [sum(column) for column in zip(*self.gather(numbers), strict=True)]

    def share(self, groups: Sequence[Sequence[Pair]], *, shares_prompts: bool) -> list[list[Pair]]:
        """Return the groups that this trainer encodes."""
        return partition(groups, self.size, shares_prompts=shares_prompts)[self.rank]

    def check_alike(self, policy: Policy) -> None:
        """Raise DistributedError if the trainers' devices read the policy in different ways, which each has tried out.

        They would divide an update's rollouts differently, and train some of them twice or never.
        """
        found = self.gather([float(policy.shares_prompts), float(len(policy.fusible))])
        if any(each != found[0] for each in found):
            said = ", ".join(f"trainer {rank + 1}: {_ways(each)}" for rank, each in enumerate(found))
            raise DistributedError(
                f"the trainers' devices do not compute this model alike ({said})",
                where="distributed",
                fix="train on GPUs of one kind with one driver, or with fewer trainers",
            )

    def level(self, parts: Sequence[_Part]) -> list[_Part | None]:
        """Return this trainer's parts, and `None` as often as another has more.

        Where weights are sharded, every pass over the model gathers them from all trainers: one that has nothing left
        to encode still has to take part.
        """
        most = max(int(count) for (count,) in self.gather([len(parts)]))
        return [*parts, *[None] * (most - len(parts))]


def _ways(found: Sequence[float]) -> str:
    shares, fused = found
    return f"{'shared' if shares else 'separate'} prompts, {fused:g} fused operations"


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
