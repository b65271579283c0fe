"""Makes the reward of one rollout from its score: adds the parts up, or says why there is no total."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rlft.outcome import Failure
from rlft.rewards.attempt import Scored
from rlft.rewards.rubric import TOLERANCE, Parts, beyond_bounds, combine, full_total, weighed_names
from rlft.types import Reward, Rollout

_SCORE_ONE = "return a number for a part that is paid (None: is a `return` missing?), 0 where nothing was earned"


@dataclass(frozen=True, slots=True)
class Rubric:
    """Holds how parts add up: weights, maxima, and the total that counts as solved (`None`: the full one).

    `minima` are those that the environment declares.
    """

    weights: Mapping[str, float]
    maxima: Mapping[str, float]
    full: float | None
    minima: Mapping[str, float] = field(default_factory=dict)


def make_reward(rollout: Rollout, scored: Scored, rubric: Rubric, seconds: float) -> Reward:
    """Return the reward of a rollout whose scoring took so many seconds; its `error` says why there is no total."""
    total, solved, failure = None, False, scored.failure
    if failure is None:
        try:
            total, solved = _total(scored.parts, rubric)
        except _ScoreError as failed:
            failure = failed.failure
    return Reward(
        rollout_id=rollout.rollout_id,
        task_id=rollout.task_id,
        total=total,
        parts=scored.parts,
        solved=solved,
        answer=scored.answer,
        error=failure,
        seconds=seconds,
        steps=scored.steps,
        judging=scored.judging,
    )


def unscored(rollout: Rollout) -> Scored | None:
    """Return why a rollout that failed itself has no score; `None` for one that can be scored."""
    if rollout.error is None:
        return None
    return Scored({}, failure=replace(rollout.error, where="rollout", why=str(rollout.error), fix=""))


class _ScoreError(Exception):
    """Raised where parts have no total; holds the `Failure` to be stored with the rollout."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))


def _total(parts: Parts, rubric: Rubric) -> tuple[float, bool]:
    """Return the total and whether it counts as solved. Raises _ScoreError for parts that have no total."""
    weights, maxima = rubric.weights, rubric.maxima
    if not any(parts[name] is not None for name in weighed_names(parts, weights)):
        raise _ScoreError(Failure("compute_reward", f"no part with a weight applies (parts: {parts})", _SCORE_ONE))
    if wrong := beyond_bounds(parts, weights, maxima, rubric.minima):
        raise _ScoreError(wrong)
    try:
        total = combine(parts, weights, maxima)
    except ValueError as error:
        raise _ScoreError(Failure("compute_reward", str(error), _SCORE_ONE)) from error
    if not math.isfinite(total):
        raise _ScoreError(Failure("weights", f"the total of {parts} is {total}"))
    wanted = full_total(parts, weights, maxima) if rubric.full is None else rubric.full
    return total, total >= wanted - TOLERANCE * max(1.0, abs(wanted))
