"""The scores of rollouts, and what judges were asked for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rlft.outcome import Failure

_PREFIX = "judge/"  # begins the names of metrics


@dataclass(frozen=True, slots=True)
class Judging:
    """What judges were asked for a score, or for several, and what that took.

    Each vote is one of the `calls`, for which the judge was asked, or `cached`: it was known already. `retries` are the
    requests beside the first one of a call, and `failed` counts the calls that got no answer. Tokens are those that the
    endpoint says to have read and written, and `untold` counts the calls that were answered without saying so. `money`
    is the price of these tokens in the currency of `judge.prices`, and `None` where a price or the tokens of an answer
    are not known. `seconds` add up those of the calls, with waits between their requests; they are more than the wall
    seconds where calls go on side by side.

    >>> from rlft.types import Judging
    >>> one = Judging(calls=1, prompt_tokens=200, completion_tokens=10, money=0.25, seconds=1.5)
    >>> (one + Judging(cached=1, money=0.0)).money
    0.25
    >>> (one + Judging(calls=1, untold=1, money=None)).money is None
    True
    """

    calls: int = 0
    retries: int = 0
    failed: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    untold: int = 0
    money: float | None = 0.0
    seconds: float = 0.0

    def __add__(self, other: Judging) -> Judging:
        """Return the sum; its money is not known if that of either is not."""
        one, two = asdict(self), asdict(other)
        money = None if self.money is None or other.money is None else self.money + other.money
        return Judging(**{**{name: one[name] + two[name] for name in one if name != "money"}, "money": money})

    def metrics(self) -> dict[str, float]:
        """Return all of it by name, as `judge/calls`; without the money if that is not known."""
        return {f"{_PREFIX}{name}": float(value) for name, value in asdict(self).items() if value is not None}


def judging_in(metrics: Mapping[str, float]) -> Judging | None:
    """Return what `Judging.metrics` has put among metrics; `None` if no judge was asked."""
    found = {name.removeprefix(_PREFIX): value for name, value in metrics.items() if name.startswith(_PREFIX)}
    if not found:
        return None
    floats: dict[str, Any] = {"money": found.pop("money", None), "seconds": found.pop("seconds")}
    return Judging(**{name: int(value) for name, value in found.items()}, **floats)


def add_judging(parts: Iterable[Judging | None]) -> Judging | None:
    """Return the sum of what was asked; `None` if no judge was."""
    asked = [part for part in parts if part is not None]
    return sum(asked, start=Judging()) if asked else None


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
    `step_weights` are those of the parts that are scored per turn. `members` are the names of the environments, where a
    run has several: what is compared over a batch is compared within one of them (`member_of`).
    """

    rows: tuple[Reward, ...]
    weights: dict[str, float]
    seconds: float = 0.0
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
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
