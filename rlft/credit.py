"""What attempts at one task are compared by in training: their totals or their parts, and the scores of their turns."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rlft.evaluation.statistics import varies
from rlft.types import Reward, Rewards


def weighed(rewards: Rewards) -> list[str]:
    """Return the parts that have a weight, in the order of their names; the others are metrics."""
    return sorted(name for name, weight in rewards.weights.items() if weight != 0)


def compared(rewards: Rewards, reward: Reward) -> tuple[float | None, ...]:
    """Return the numbers by which an attempt as a whole is compared with the others at its task.

    These are its total; with `normalize_then_sum` they are its parts with a weight, in the order of `weighed`, of which
    one that does not apply is `None`.
    """
    if rewards.aggregation == "sum":
        return (reward.total,)
    return tuple(reward.parts.get(name) for name in weighed(rewards))


def step_scores(rewards: Rewards, reward: Reward) -> list[float | None]:
    """Return the score of each turn: the weighted sum of its parts that apply, `None` where none does.

    Empty for an attempt whose turns have no scores, or none with a weight.
    """
    parts = [(rewards.step_weights.get(name, 1.0), scores) for name, scores in reward.steps.items()]
    parts = [(weight, scores) for weight, scores in parts if weight != 0]
    turns = zip(*(scores for _, scores in parts), strict=True)
    return [_sum([(weight, score) for (weight, _), score in zip(parts, turn, strict=True)]) for turn in turns]


def cannot_be_told_apart(rewards: Rewards, group: Sequence[Reward]) -> bool:
    """Return whether nothing that attempts at one task are compared by varies among them, so that they teach nothing.

    Every question whether a group has something to train on is decided by this.
    """
    columns = zip(*(compared(rewards, reward) for reward in group), strict=True)
    steps = [score for reward in group for score in step_scores(rewards, reward)]
    return not any(varies([value for value in column if value is not None]) for column in (*columns, steps))


def _sum(weighted: Sequence[tuple[float, float | None]]) -> float | None:
    known = [weight * score for weight, score in weighted if score is not None]
    return math.fsum(known) if known else None
