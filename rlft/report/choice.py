"""Why one validated policy was chosen, and whether another may be as good."""

from __future__ import annotations

from collections.abc import Mapping

from rlft.comparison import compare
from rlft.types import EvaluationReport

_NAMED = 3  # more validations than these are counted, not named


def choice(validations: Mapping[int, EvaluationReport], metric: str, best: int | None) -> str:
    """Say whether the validation after `best` rounds, which was chosen, is better than the others beyond chance.

    `validations` are by the number of rounds before. Each is compared with the chosen one task by task at 95 %, which
    all share (Bonferroni). Empty where nothing can be compared.
    """
    scored = {number: each for number, each in sorted(validations.items()) if each.per_task.get(metric)}
    if best not in scored or len(scored) < 2:
        return ""
    confidence = 1 - 0.05 / (len(scored) - 1)
    others = [number for number in scored if number != best]
    found = {number: compare(scored[best], scored[number], metric, confidence=confidence) for number in others}
    near = [number for number, each in found.items() if each is None or not each.exceeds(0)]
    who = f"after {best} rounds" if best else "that training started from"
    errors = ", where attempts without a score count as the lowest" if any(e.errors for e in scored.values()) else ""
    chosen = f"The policy {who} was chosen: its mean is the highest{errors}, and the first of those that are equal."
    if not near:
        return f"{chosen} It is better than each of the others beyond chance."
    if len(near) == len(others):
        return f"{chosen} It is better than none of the others beyond chance, so each of them may be as good."
    named = f"Those after {', '.join(map(str, near))} rounds" if len(near) <= _NAMED else f"{len(near)} of the others"
    return f"{chosen} {named} may be as good: the difference is within chance."
