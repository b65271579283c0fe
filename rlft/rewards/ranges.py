"""Which scores are possible: the ranges of parts as an environment declares them, and that of the total."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rlft.rewards.one_rollout import Rubric
from rlft.rewards.rubric import maximum_of, minimum_of, weight_of

Ends = tuple[float, float]  # the lowest and the highest score


def score_ranges(parts: Iterable[str], rubric: Rubric) -> dict[str, Ends]:
    """Return {`rewards/<part>`: (lowest, highest)} of parts that declare a minimum, and `reward` if all of them do.

    A part of weight 0, a metric, says nothing of the total.
    """
    known = {
        name: (minimum, maximum_of(name, rubric.maxima))
        for name in parts
        if (minimum := minimum_of(name, rubric.minima)) is not None
    }
    ranges = {f"rewards/{name}": ends for name, ends in known.items()}
    weighed = {name: weight for name in parts if (weight := weight_of(name, rubric.weights))}
    if weighed and weighed.keys() <= known.keys():
        ranges["reward"] = total_range({name: (weight, known[name]) for name, weight in weighed.items()})
    return ranges


def total_range(parts: dict[str, tuple[float, Ends]]) -> Ends:
    """Return the lowest and the highest total of {part: (weight, (minimum, maximum))}, as `rubric.combine` adds up.

    A paid part counts for those that do not apply, so the worst of them can count for all: the lowest total has all
    that they are worth times the lowest minimum in relation to its maximum. Penalties and parts whose maximum is 0 add
    to that; they may not apply, which counts as 0. The range holds every total; it may be wider than what occurs where
    all parts always apply and their minima differ.
    """
    worth = {name: weight * high for name, (weight, (_, high)) in parts.items() if weight > 0 and high > 0}
    whole = math.fsum(worth.values())
    worst = min((parts[name][1][0] / parts[name][1][1] for name in worth), default=0.0)
    others = [
        sorted((weight * low, weight * high)) for name, (weight, (low, high)) in parts.items() if name not in worth
    ]
    return (
        whole * worst + math.fsum(min(0.0, low) for low, _ in others),
        whole + math.fsum(max(0.0, high) for _, high in others),
    )
