"""The scores of rollouts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from rlft.outcome import Failure
from rlft.types.judging import Judging

Aggregation = Literal["sum", "normalize_then_sum"]


@dataclass(frozen=True, slots=True)
class Reward:
    """The score of one rollout: the parts that `compute_reward` returned, and their weighted sum.

    >>> from rlft.types import Reward
    >>> Reward(
    ...     rollout_id="train-0-1-0",
    ...     task_id="1",
    ...     total=0.5,
    ...     parts={"right": 0.0, "short": 1.0},
    ...     solved=False,
    ...     answer="Cusco",
    ...     error=None,
    ...     seconds=0.01,
    ... ).parts["short"]
    1.0
    """

    rollout_id: str
    """The rollout that was scored."""
    task_id: str
    """Its task."""
    total: float | None
    """The weighted sum of `parts`; `None` when scoring failed, and then `error` says why."""
    parts: dict[str, float | None]
    """{part: score}. A part that is `None` does not apply and counts as the mean of those that do
    (`rlft.rewards.rubric`)."""
    solved: bool
    """Whether the total is at least the one that counts as solved (`reward.full`)."""
    answer: str | None
    """What `final_answer` returned for the attempt, for majority votes."""
    error: Failure | None
    """Why there is no score."""
    seconds: float
    """Wall seconds that scoring took."""
    steps: dict[str, tuple[float | None, ...]] = field(default_factory=dict)
    """{part: its scores of the turns, one each}, of the parts that are scored per turn. They are no part of the total;
    `None` is a turn to which the part does not apply."""
    judging: Judging | None = None
    """What judges were asked for the score; `None` if none was."""


@dataclass(frozen=True, slots=True)
class Rewards:
    """The rewards of a set of rollouts, in the same order, with the weights of their parts.

    `ranges` are the lowest and the highest possible score of `reward` and of each `rewards/<part>` that declares them,
    and of `reward/<environment>` where there are several.
    `aggregation` says what attempts at one task are compared by, where they are trained on (`rlft.credit`).
    `step_weights` are those of the parts that are scored per turn. `members` are the names of the environments, where a
    run has several: what is compared over a batch is compared within one of them (`member_of`).
    """

    rows: tuple[Reward, ...]
    weights: dict[str, float]
    seconds: float = 0.0
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    aggregation: Aggregation = "sum"
    step_weights: dict[str, float] = field(default_factory=dict)
    members: tuple[str, ...] = ()

    def member_of(self, reward: Reward) -> str:
        """Return the environment of a reward, by its task's id, which begins with the name; empty where there is one.

        >>> from rlft.types import Reward, Rewards
        >>> reward = Reward("1", "sums/7", 1.0, {"sums/right": 1.0}, True, "4", None, 0.0)
        >>> Rewards((reward,), {"sums/right": 1.0}, members=("sums", "words")).member_of(reward)
        'sums'
        """
        return reward.task_id.partition("/")[0] if self.members else ""

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Reward]:
        return iter(self.rows)
