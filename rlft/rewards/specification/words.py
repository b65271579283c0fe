"""A specification in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from rlft.rewards.specification.model import Applies, Criterion, Specification


def in_words(specification: Specification, weights: Mapping[str, float] | None = None) -> str:
    """Return the specification as sentences, one paragraph for each criterion.

    `weights` override those of the criteria, as `reward.weights` does.
    """
    given = {name: (weights or {}).get(name, each.weight) for name, each in specification.criteria.items()}
    full = math.fsum(max(0.0, given[name]) * each.maximum for name, each in specification.criteria.items())
    lines = [specification.says.strip()] if specification.says.strip() else []
    lines.append(f"A full attempt earns {full:g}.")
    for number, (name, each) in enumerate(specification.criteria.items(), start=1):
        lines.append(f"{number}. {name}: {' '.join(_sentences(each, given[name]))}")
    if (judge := specification.judge) is not None:
        votes = "" if judge.votes == 1 else f", by {judge.votes} votes"
        lines.append(f"The judge is {judge.model} at {judge.endpoint}{votes}.")
    if number := len(specification.cases):
        lines.append(f"{number} case{' says' if number == 1 else 's say'} what attempts deserve.")
    return "\n\n".join(lines)


def sentence(text: str) -> str:
    """Return a text that begins with a capital and ends with a full stop."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _sentences(criterion: Criterion, weight: float) -> Iterator[str]:
    yield sentence(criterion.says)
    if weight < 0:
        # What a penalty is about may be said as what is wanted or as what is not; what costs is said apart.
        cost = f"It is a penalty. It costs up to {-weight * criterion.maximum:g} if this is so"
        yield sentence(f"{cost}: {criterion.grader.says()}")
    else:
        yield sentence(f"It is checked whether {criterion.grader.says()}")
        yield _worth(criterion, weight)
    if criterion.essential:
        yield "It is essential: an attempt that does not meet it is paid for no other criterion."
    if criterion.applies is not None:
        yield sentence(f"It applies {_applies(criterion.applies)}; for other tasks it counts as the mean of the rest")


def _worth(criterion: Criterion, weight: float) -> str:
    if weight == 0:
        return "It is a metric, and pays nothing."
    least = f", and costs {-weight * criterion.minimum:g} at worst" if criterion.minimum < 0 else ""
    return f"It pays up to {weight * criterion.maximum:g}{least}."


def _applies(condition: Applies) -> str:
    if condition.any_of is None:
        return f"where {condition.when} is not empty"
    return f"where {condition.when} is {' or '.join(map(str, condition.any_of))}"
