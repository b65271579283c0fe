"""Why one validated policy was chosen, and whether another may be as good."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from rlft.comparison import compare, completed, ends_of
from rlft.types import EvaluationReport

_NAMED = 3  # more validations than these are counted, not named


def choice(validations: Mapping[int, EvaluationReport], metric: str, best: int | None) -> str:
    """Say whether the validation after `best` rounds, which was chosen, is better than the others beyond chance.

    `validations` are by the number of rounds before. Each is compared with the chosen one task by task at 95 %, which
    all share (Bonferroni). Empty where there was nothing to choose from: the start, and one validation after it.
    """
    scored = {number: each for number, each in sorted(validations.items()) if each.per_task.get(metric)}
    if best not in scored or len(scored) < 3:
        return ""
    confidence = 1 - 0.05 / (len(scored) - 1)
    others = [number for number in scored if number != best]
    found = {number: compare(scored[best], scored[number], metric, confidence=confidence) for number in others}
    near = [number for number, each in found.items() if each is None or not each.exceeds(0)]
    who = f"after {_rounds(best)}" if best else "that training started from"
    errors = ", where attempts without a score count as the lowest" if any(e.errors for e in scored.values()) else ""
    of = _of_which(scored, metric, best) + errors
    chosen = f"The policy {who} was chosen: its mean is the highest{of}, and the first of those that are equal."
    if of != errors:
        chosen += " The start, which is not chosen from, has a higher one."
    if not near:
        return f"{chosen} It is better than each of the others beyond chance."
    if len(near) == len(others):
        return f"{chosen} It is better than none of the others beyond chance, so each of them may be as good."
    named = f"Those after {_listed(near)}" if len(near) <= _NAMED else f"{len(near)} of the others"
    return f"{chosen} {named} may be as good: the difference is within chance."


def _of_which(scored: Mapping[int, EvaluationReport], metric: str, best: int) -> str:
    """Return of which policies the mean after `best` rounds is the highest, where it is not of all: the start counts.

    Errors count as in `rlft.comparison.is_better`.
    """
    if 0 not in scored:
        return ""
    low = ends_of(metric, *scored.values()).low
    start, chosen = (fmean(completed(scored[number], metric, low).values()) for number in (0, best))
    return " of the trained rounds" if start > chosen else ""


def _rounds(count: int) -> str:
    return "1 round" if count == 1 else f"{count} rounds"


def _listed(counts: list[int]) -> str:
    return f"{', '.join(map(str, counts[:-1]))}, {_rounds(counts[-1])}".removeprefix(", ")
