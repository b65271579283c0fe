"""The workers that train one policy together, as one of them sees them.

All workers call the same functions with the same arguments. Each encodes its share of an update's rollouts, and every
number that a decision depends on is that of all shares together, so that all workers decide alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rlft.training.batching import Pair
from rlft.training.division import divide

_Part = TypeVar("_Part")


class Team:
    """A worker that is alone. Teams of several override `rank`, `size` and `gather`, which all must call together."""

    rank = 0
    size = 1

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """Return the numbers of every worker, by rank; workers may have differently many."""
        return [list(numbers)]

    def total(self, numbers: Sequence[float]) -> list[float]:
        """Return the sums over the workers, each of which has as many numbers; they are the same bits everywhere."""
        return [sum(column) for column in zip(*self.gather(numbers), strict=True)]

    def share(self, groups: Sequence[Sequence[Pair]], *, shares_prompts: bool) -> list[list[Pair]]:
        """Return the groups that this worker encodes."""
        return divide(groups, self.size, shares_prompts=shares_prompts)[self.rank]

    def level(self, parts: Sequence[_Part]) -> list[_Part | None]:
        """Return this worker's parts, and `None` as often as another has more.

        Where weights are sharded, every pass over the model gathers them from all workers: one that has nothing left to
        encode still has to take part.
        """
        most = max(int(count) for (count,) in self.gather([len(parts)]))
        return [*parts, *[None] * (most - len(parts))]


ALONE = Team()
