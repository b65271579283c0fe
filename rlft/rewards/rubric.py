"""What the parts of a reward may be, and how they add up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

Parts = dict[str, float | None]
TOLERANCE = 1e-9
UNNAMED = "*"  # the key of the weight that parts without one of their own have


def check_parts(scores: Any) -> Parts:
    """What `compute_reward` returned as plain floats, `None` where a part does not apply.

    A number alone is the part `reward`. Raises `TypeError` for anything but numbers (`True` is 1) and dicts of them,
    `ValueError` for NaN and infinity.
    """
    if isinstance(scores, Real) or getattr(scores, "shape", None) == ():
        scores = {"reward": scores}
    if not isinstance(scores, Mapping):
        raise TypeError(f"returned {type(scores).__name__} {scores!r:.80}, not a dict of {{part: score}} or a number")
    return {_check_name(name): _check_score(name, score) for name, score in scores.items()}


def weight_of(part: str, weights: Mapping[str, float]) -> float:
    """The part's own weight, else that of `*`, else 1."""
    return weights.get(part, weights.get(UNNAMED, 1.0))


def combine(parts: Mapping[str, float | None], weights: Mapping[str, float]) -> float:
    """The sum of weight times score, in which a part that does not apply counts as the mean of those that do.

    That is the sum over the parts with a positive weight that apply, divided by the share of all positive weights that
    is theirs, plus the penalties (negative weights) that apply. So attempts at one task can be compared: with every
    score of 1 the total is `full_total`, whichever parts apply, and with every score of 0 it is 0. Raises ValueError
    when parts with a positive weight are named and none of them applies.
    """
    applied = full_total({name: score for name, score in parts.items() if score is not None}, weights)
    whole = full_total(parts, weights)
    if whole and not applied:
        raise ValueError(f"no part with a positive weight applies (parts: {dict(parts)})")
    share = whole / applied if applied else 1.0
    weighed = ((weight_of(name, weights), score) for name, score in parts.items() if score is not None)
    return math.fsum((share * weight if weight > 0 else weight) * score for weight, score in weighed)


def full_total(parts: Mapping[str, float | None], weights: Mapping[str, float]) -> float:
    """The total of an attempt that earns 1 in every part that applies and pays no penalty (a negative weight)."""
    return math.fsum(max(weight_of(name, weights), 0.0) for name in parts)


def weighed_names(parts: Mapping[str, float | None], weights: Mapping[str, float]) -> set[str]:
    """The parts that a total is made of, whether they apply or not; parts of weight 0 are metrics."""
    return {name for name in parts if weight_of(name, weights) != 0}


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
    value = float(score)
    if not math.isfinite(value):
        raise ValueError(f"part {name!r} is {value}")
    return value
