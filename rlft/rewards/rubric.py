"""Checks the parts of a reward, adds them up, and makes the reward of a rollout of them.

A part is paid (positive weight), a penalty (negative weight) or a metric (weight 0). A paid part has a maximum, 1
unless the environment declares another, and no minimum: what is wrong may cost something. The score of a penalty is 0
or more. So no attempt earns more than the full total, and one that earns it is full in every part that is paid. A part
whose minimum is declared has a range, from there to its maximum, whatever its weight.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from numbers import Real
from typing import Any

from rlft.errors import ConfigError
from rlft.outcome import Failure
from rlft.types import Judging, Reward, Rollout

Parts = dict[str, float | None]  # {part: score}, `None` where the part does not apply
TOLERANCE = 1e-9
"""The difference of two scores or totals that counts as rounding."""
UNNAMED = "*"
"""The key of the weight, or the maximum, of parts that have none of their own."""


def check_parts(scores: Any) -> Parts:
    """Return what `compute_reward` returned as plain floats, `None` where a part does not apply.

    A number alone is the part `reward`. Raises `TypeError` for anything but numbers (`True` is 1) and dicts of them,
    `ValueError` for NaN and infinity.
    """
    if isinstance(scores, Real) or getattr(scores, "shape", None) == ():
        scores = {"reward": scores}
    if scores is None:
        raise TypeError("returned None, not a dict of {part: score} or a number: is a `return` missing?")
    if not isinstance(scores, Mapping):
        raise TypeError(f"returned {type(scores).__name__} {scores!r:.80}, not a dict of {{part: score}} or a number")
    return {_check_name(name): _check_score(name, score) for name, score in scores.items()}


def check_steps(steps: Any, turns: int) -> dict[str, tuple[float | None, ...]]:
    """Return what `compute_step_rewards` returned as plain floats, one for each of so many turns.

    Raises `TypeError` and `ValueError` as `check_parts` does, and ValueError for another number of scores.
    """
    if not isinstance(steps, Mapping):
        raise TypeError(f"returned {type(steps).__name__} {steps!r:.80}, not a dict of {{part: a score for each turn}}")
    found: dict[str, tuple[float | None, ...]] = {}
    for name, scores in steps.items():
        if isinstance(scores, str) or not isinstance(scores, Sequence) or len(scores) != turns:
            raise ValueError(f"part {name!r} is {scores!r:.80}, not a list of {turns} scores, one for each turn")
        found[_check_name(name)] = tuple(_check_score(name, score) for score in scores)
    return found


def weight_of(part: str, weights: Mapping[str, float]) -> float:
    """Return the part's own weight, else that of `*`, else 1."""
    return weights.get(part, weights.get(UNNAMED, 1.0))


def maximum_of(part: str, maxima: Mapping[str, float]) -> float:
    """Return the part's own maximum, else that of `*`, else 1."""
    return maxima.get(part, maxima.get(UNNAMED, 1.0))


def combine(
    parts: Mapping[str, float | None], weights: Mapping[str, float], maxima: Mapping[str, float] | None = None
) -> float:
    """Return the sum of weight times score, in which a part that does not apply counts as the mean of those that do.

    A part is worth its positive weight times its maximum. The total is the sum over such parts that apply, divided by
    their share of what all are worth, plus the penalties that apply (negative weights, and parts whose maximum is 0).
    So attempts at one task can be compared: with every score at its maximum the total is `full_total`, whichever parts
    apply, and with every score of 0 it is 0. Raises ValueError when parts that are worth something are named and none
    of them applies.
    """
    worth = {name: _worth(name, weights, maxima or {}) for name in parts}
    whole = math.fsum(worth.values())
    applied = math.fsum(worth[name] for name, score in parts.items() if score is not None)
    if whole and not applied:
        raise ValueError(f"no part with a positive weight applies (parts: {dict(parts)})")
    share = whole / applied if applied else 1.0
    return math.fsum(
        (share if worth[name] else 1.0) * weight_of(name, weights) * score
        for name, score in parts.items()
        if score is not None
    )


def full_total(
    parts: Mapping[str, float | None], weights: Mapping[str, float], maxima: Mapping[str, float] | None = None
) -> float:
    """Return the total of an attempt that earns the maximum in every part that is paid, and has no penalty."""
    return math.fsum(_worth(name, weights, maxima or {}) for name in parts)


def check_numbers(numbers: Any, what: str, *, least: float = -math.inf) -> dict[str, float]:
    """Return weights or maxima, by part, as plain floats; `what` names one of them in an error.

    Raises ValueError unless they are a dict of finite numbers of at least `least`.
    """
    if not isinstance(numbers, Mapping):
        raise ValueError(f"returned {type(numbers).__name__} {numbers!r:.80}, not a dict of {{part: {what}}}")
    for name, number in numbers.items():
        is_number = isinstance(number, Real) and not isinstance(number, bool)
        if not is_number or not math.isfinite(_as_float(number)) or number < least:
            finite = "a finite number" + ("" if least == -math.inf else f" of at least {least:g}")
            raise ValueError(f"the {what} of part {name!r} is {number!r:.80}, not {finite}")
    return {name: float(number) for name, number in numbers.items()}


def check_weighed(weights: Mapping[str, float], parts: Collection[str], said: str) -> None:
    """Raise ConfigError that begins with `said` for a weight of the config whose part is none of `parts`."""
    for name in weights:
        if name not in parts and name != UNNAMED:
            close = get_close_matches(name, parts, cutoff=0.5)
            raise ConfigError(
                f"{said} {name!r}",
                where="reward.weights",
                fix=(f"did you mean {' or '.join(close)}? " if close else "") + f"The parts are: {', '.join(parts)}",
            )


def minimum_of(part: str, minima: Mapping[str, float]) -> float | None:
    """Return the part's own minimum, else that of `*`, else `None`: it is not declared."""
    return minima.get(part, minima.get(UNNAMED))


def beyond_bounds(
    parts: Mapping[str, float | None],
    weights: Mapping[str, float],
    maxima: Mapping[str, float],
    minima: Mapping[str, float] | None = None,
) -> Failure | None:
    """Return what is wrong with the first part that is out of bounds, and what to do; else `None`.

    Such a part is a paid one above its maximum or a penalty below 0, either of which could lift a total above the full
    one, or any part outside the range that it declares by a minimum.
    """
    for name, score in parts.items():
        weight, maximum = weight_of(name, weights), maximum_of(name, maxima)
        minimum = minimum_of(name, minima or {})
        if score is None or (not weight and minimum is None):
            continue
        if minimum is not None and score < minimum - TOLERANCE * max(1.0, abs(minimum)):
            return Failure(
                "compute_reward",
                f"part {name!r} is below its minimum: {score:g}, not {minimum:g} or more",
                f"return {minimum:g} for what is worst, or declare another minimum (reward_minima, "
                f"@rlft.reward(minimum={score:g}), or `minima` in the arguments of TrlRewards and VerlRewards)",
            )
        if (weight > 0 or minimum is not None) and score > maximum + TOLERANCE * max(1.0, maximum):
            return Failure(
                "compute_reward",
                f"part {name!r} is above its maximum: {score:g} of {maximum:g}",
                f"return {maximum:g} for what is full, or declare another maximum (reward_maxima, "
                f"@rlft.reward(maximum={score:g}), or `maxima` in the arguments of TrlRewards and VerlRewards)",
            )
        if weight < 0 and score < -TOLERANCE:
            return Failure(
                "compute_reward",
                f"part {name!r} is a penalty that pays: {score:g} with the weight {weight:g}",
                "return 0 or more from a penalty with a negative weight; or give it a positive weight and the "
                "maximum 0",
            )
    return None


def weighed_names(parts: Mapping[str, float | None], weights: Mapping[str, float]) -> set[str]:
    """Return the parts that a total is made of, whether they apply or not; parts of weight 0 are metrics."""
    return {name for name in parts if weight_of(name, weights) != 0}


def never_given(rows: Iterable[Mapping[str, float | None]], weights: Mapping[str, float]) -> list[str]:
    """Return the parts with a weight that are `None` in every row that has parts.

    A method without its `return` makes such a part.
    """
    given = [parts for parts in rows if parts]
    names = dict.fromkeys(name for parts in given for name in parts)
    return [n for n in names if weight_of(n, weights) and all(parts.get(n) is None for parts in given)]


def _worth(part: str, weights: Mapping[str, float], maxima: Mapping[str, float]) -> float:
    return max(weight_of(part, weights), 0.0) * maximum_of(part, maxima)


def _check_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a part is named {name!r}; names must be text")
    return name


def _check_score(name: str, score: Any) -> float | None:
    if score is None:
        return None
    if getattr(score, "shape", None) == ():  # a scalar of NumPy or torch
        score = score.item()
    if not isinstance(score, Real):
        raise TypeError(f"part {name!r} is {type(score).__name__} {score!r:.80}, not a number")
    value = _as_float(score)
    if not math.isfinite(value):
        raise ValueError(f"part {name!r} is {value}")
    return value


def _as_float(number: Any) -> float:
    """Return the number as Python's float, infinite if it is too large for one."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


@dataclass(frozen=True, slots=True)
class Scored:
    """Holds what an environment says of an attempt: the checked parts and the final answer, or why there are none.

    `steps` are the scores of the turns, by part, and `judging` is what judges were asked.
    """

    parts: Parts
    answer: str | None = None
    failure: Failure | None = None
    steps: dict[str, tuple[float | None, ...]] = field(default_factory=dict)
    judging: Judging | None = None


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
    failure = scored.failure or _without_total(scored.parts, rubric)
    total = None if failure else combine(scored.parts, rubric.weights, rubric.maxima)
    return Reward(
        rollout_id=rollout.rollout_id,
        task_id=rollout.task_id,
        total=total,
        parts=scored.parts,
        solved=total is not None and _is_solved(total, scored.parts, rubric),
        answer=scored.answer,
        error=failure,
        seconds=seconds,
        steps=scored.steps,
        judging=scored.judging,
    )


def bounded_total(
    parts: Parts, weights: Mapping[str, float], maxima: Mapping[str, float], minima: Mapping[str, float]
) -> float:
    """Return the total of parts by these weights. Raises ValueError for a part that is out of its bounds."""
    if wrong := beyond_bounds(parts, weights, maxima, minima):
        raise ValueError(wrong.why)
    return combine(parts, weights, maxima)


def unscored(rollout: Rollout) -> Scored | None:
    """Return why a rollout that failed itself has no score; `None` for one that can be scored."""
    if rollout.error is None:
        return None
    return Scored({}, failure=replace(rollout.error, where="rollout", why=str(rollout.error), fix=""))


def _without_total(parts: Parts, rubric: Rubric) -> Failure | None:
    """Return why parts have no total; `None` where they have one."""
    weights, maxima = rubric.weights, rubric.maxima
    if not any(parts[name] is not None for name in weighed_names(parts, weights)):
        return Failure("compute_reward", f"no part with a weight applies (parts: {parts})", _SCORE_ONE)
    if wrong := beyond_bounds(parts, weights, maxima, rubric.minima):
        return wrong
    try:
        total = combine(parts, weights, maxima)
    except ValueError as error:
        return Failure("compute_reward", str(error), _SCORE_ONE)
    return None if math.isfinite(total) else Failure("weights", f"the total of {parts} is {total}")


def _is_solved(total: float, parts: Parts, rubric: Rubric) -> bool:
    wanted = full_total(parts, rubric.weights, rubric.maxima) if rubric.full is None else rubric.full
    return total >= wanted - TOLERANCE * max(1.0, abs(wanted))
