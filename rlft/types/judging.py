"""What judges were asked for scores, and what that took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

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
