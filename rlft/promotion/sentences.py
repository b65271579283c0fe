"""Says in sentences how the trained policy compares with a rival, and what keeps a comparison from being evidence."""

from __future__ import annotations

from collections.abc import Collection

from rlft.blocks import change, ends
from rlft.comparison import Comparison

_NAMED = 3  # tasks that a sentence names


def of_known_tasks(known: Collection[str] | None) -> str:
    """Return the end of a sentence that says on which tasks of the gate the champion was trained."""
    if known is None:
        return "; its run has not noted its tasks, so it may have been trained on some of these"
    return f"; {len(known)} tasks that it was trained on are left out" if known else ""


def incomparable(name: str, without: Collection[str]) -> str:
    """Return that no task was scored for both, those of `without` left out, and what to do."""
    what = f"trained and {plain(name)} cannot be compared: "
    if without:
        return (
            f"{what}{plain(name)} was trained on {len(without)} tasks of the gate, and none is left; draw a fresh gate"
        )
    return f"{what}no task was scored for both; evaluate again"


def plain(name: str) -> str:
    """Return a rival as a sentence names it."""
    names = {"warm_start": "warm start", "champion": "the champion", "constant": "the best constant answer"}
    return names.get(name, name)


def absent(name: str) -> list[str]:
    """Return why there is no comparison with a rival; nothing to say of a constant answer."""
    if name == "constant":
        return []
    if name == "champion":
        return ["no champion to compare with: this would be the first"]
    return ["no warm start in this run: that comparison is left out"]


def sentence(
    name: str,
    metric: str,
    found: Comparison,
    minimum: float,
    obstacle: str | None,
    confidence: float,
    where: str = "gate",
) -> str:
    """Return a comparison with a rival as a sentence, which says whether the bound exceeds `minimum`."""
    difference = found.difference
    over = f"{difference.count} tasks"
    if difference.groups != difference.count:
        over += f" in {difference.groups} groups"
    text = (
        f"{'passes' if obstacle is None and found.exceeds(minimum) else 'fails'}: {metric} on {where} of trained minus "
        f"{plain(name)} is {change(difference.mean, metric)} ({100 * confidence:.4g} % interval "
        f"{ends(difference.low, difference.high, metric)}, {over}); the lower bound must exceed "
        f"{change(minimum, metric)}"
    )
    if found.errors:
        text += (
            f"; counting {found.errors} rollouts without a score against the trained policy, it is "
            f"{change(found.low_with_errors, metric)}"
        )
    if found.without_score:
        shown = ", ".join(found.without_score[:_NAMED]) + ", ..." * (len(found.without_score) > _NAMED)
        text += f"; {len(found.without_score)} tasks without a score for either are left out: {shown}"
    if not found.declared:
        text += "; the range of this score is not known, so rare large losses that did not occur may be missing"
    return text if obstacle is None else f"{text}; but {obstacle}"
