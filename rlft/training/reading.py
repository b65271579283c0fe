"""How a trainer reads the rollouts of an update: its share of them, in parts that fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from rlft.policy import Policy
from rlft.training.batching import Batch, Pair
from rlft.training.logprobs import token_logprobs
from rlft.training.parts import split_parts
from rlft.training.world import World


@dataclass(frozen=True, slots=True)
class Reading:
    """Which policy one of the trainers of a `world` reads with, at which temperature.

    `budget` is the most tokens of a part (`training.per_step_token_budget`); `None` leaves it to the device.
    """

    policy: Policy
    world: World
    temperature: float
    budget: int | None

    def share(self, groups: Sequence[Sequence[Pair]]) -> list[list[Pair]]:
        """Return those groups of an update that this trainer encodes."""
        return self.world.share(groups, shares_prompts=self.policy.shares_prompts)

    def parts(self, groups: Sequence[Sequence[Pair]]) -> list[list[Pair]]:
        """Return the rollouts of groups in parts of at most `budget` tokens."""
        return split_parts(self.policy, groups, self.budget)

    def logprobs(self, batch: Batch) -> Tensor:
        """Return the log-probabilities of a batch's sampled tokens, [rollouts, tokens]."""
        return token_logprobs(self.policy, batch, self.temperature, with_entropy=False).logprobs


def shortest(groups: Sequence[Sequence[Pair]]) -> list[Pair]:
    """Return the shortest of all rollouts, which is the cheapest to read where a trainer has none of its own left."""
    return [min((pair for group in groups for pair in group), key=lambda pair: len(pair[0].token_ids))]
