"""Decides from evaluation reports whether a trained policy becomes the champion, and says why."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from rlft.comparison import Comparison, compare
from rlft.gates.looks import FIRST_LOOK, Look, confidence_at, why_refused
from rlft.types import EvaluationReport, Interval, Report
from rlft.variety import collapse

# With fewer groups the spread between them is hardly known, and no interval holds.
MIN_GROUPS = 20
_NAMED = 3  # tasks that a sentence names
_NOT_THE_RECIPE = (
    "this judges the trained policy, not the settings that made it: a claim about those takes runs with at least three "
    "seeds"
)


@dataclass(frozen=True, slots=True)
class Decision(Report):
    """Holds the outcome of the gate.

    `reasons` has a sentence for each comparison. `comparisons` maps `warm_start`, `base`, `champion` and `constant`
    (the best constant answer) to the difference (trained minus that policy) with its interval, for those that could
    be compared, at the level of one of `looks` looks at the gate. `look` is the number of this one.
    """

    promote: bool
    reasons: tuple[str, ...]
    comparisons: dict[str, Interval] = field(default_factory=dict)
    look: int = 1
    looks: int = 1


@dataclass(frozen=True, slots=True)
class RegisteredVersion(Report):
    """Names a version in the model registry, and the aliases that point to it now."""

    name: str
    version: str
    model_id: str | None
    aliases: tuple[str, ...]


def decide_promotion(
    trained: EvaluationReport,
    warm_start: EvaluationReport | None,
    base: EvaluationReport,
    champion: EvaluationReport | None,
    *,
    metric: str,
    min_improvement: float,
    constant: EvaluationReport | None = None,
    look: Look = FIRST_LOOK,
    looks: int = 1,
    champion_knows: Collection[str] | None = (),
) -> Decision:
    """Promote only if trained minus each rival has a lower bound strictly above `min_improvement` (in the metric).

    The bound must also hold when errors count against the trained policy (`rlft.comparison`), the split must have at
    least `MIN_GROUPS` groups, and the answers must not have collapsed to a few (`rlft.variety`). `warm_start` is `None`
    in a run without one, `champion` before the first promotion, `constant`, the best constant answer, where none could
    be scored. The policy that is champion already is not promoted again.

    `look` says which decision on these tasks this is, of at most `looks`, which the level of the intervals is for
    (`rlft.gates.looks.confidence_at`). `champion_knows` are ids of tasks that the champion was trained on, which are
    left out of the comparison with it; `None` if they are not known. Raises ValueError if the reports are of different
    splits or lack the metric.
    """
    rivals = {"warm_start": warm_start, "base": base, "champion": champion, "constant": constant}
    _check_splits([trained, *(report for report in rivals.values() if report is not None)])
    if champion is not None and champion.policy == trained.policy:
        already = f"the trained policy {trained.policy[:12]} is the champion already"
        return Decision(False, (already,), look=look.number, looks=looks)
    promote, comparisons, confidence = look.is_allowed, {}, confidence_at(looks)
    reasons = _of_looks(look, looks, confidence)
    for name, rival in rivals.items():
        if rival is None:
            reasons += _absent(name)
            continue
        without = champion_knows or () if name == "champion" else ()
        found = compare(trained, rival, metric, confidence=confidence, without=without)
        if found is None:
            promote = False
            reasons.append(_incomparable(name, without))
            continue
        comparisons[name] = found.difference
        obstacle = _obstacle(found)
        promote = promote and obstacle is None and found.exceeds(min_improvement)
        reasons.append(_sentence(name, metric, found, min_improvement, obstacle, confidence))
        if name == "champion":
            reasons[-1] += _of_known_tasks(champion_knows)
    if collapsed := collapse(trained, warm_start or base):
        promote = False
        reasons.append(f"fails: {collapsed}")
    if promote:
        reasons.append(_NOT_THE_RECIPE)
    return Decision(promote, tuple(reasons), comparisons, look.number, looks)


def few_groups(split: str, groups: int, effective: float) -> str | None:
    """Return why nothing can be promoted by a split with so many groups of tasks; `None` if it has enough.

    `effective` is how many groups of equal size say as much.
    """
    if effective >= MIN_GROUPS:
        return None
    has = f"{split} has {groups} groups of tasks"
    if groups >= MIN_GROUPS:
        has += f" of such unequal size that they count as {effective:.1f}"
    return (
        f"{has}, and at least {MIN_GROUPS} are needed to know how far they spread; make the split larger, or take data "
        "with more groups (tasks.group)"
    )


def _of_looks(look: Look, looks: int, confidence: float) -> list[str]:
    """Return what this look means, in a sentence; nothing for the only one."""
    if refused := why_refused(look, looks):
        return [f"fails: {refused}"]
    if looks == 1:
        return []
    level = f"{100 * confidence:.4g} %"
    which = f"{look.number} of {looks}" if look.number <= looks else str(look.number)
    return [f"look {which} at this gate: each decision is at {level}, so that chance promotes in few of them"]


def _of_known_tasks(known: Collection[str] | None) -> str:
    """Return the end of a sentence that says on which tasks of the gate the champion was trained."""
    if known is None:
        return "; its run has not noted its tasks, so it may have been trained on some of these"
    return f"; {len(known)} tasks that it was trained on are left out" if known else ""


def _check_splits(reports: list[EvaluationReport]) -> None:
    splits = sorted({report.split for report in reports})
    if len(splits) > 1:
        raise ValueError(f"the reports are of different splits: {', '.join(splits)}")


def _obstacle(found: Comparison) -> str | None:
    """Return why a comparison is no evidence, whatever its interval; `None` if it is."""
    if few := few_groups("gate", found.difference.groups, found.difference.effective_groups):
        return few
    if not found.declared and found.difference.low == found.difference.high:
        return "every task has the same difference, and scores without a declared range have no interval then"
    return None


def _incomparable(name: str, without: Collection[str]) -> str:
    what = f"trained and {_plain(name)} cannot be compared: "
    if without:
        return (
            f"{what}{_plain(name)} was trained on {len(without)} tasks of the gate, and none is left; draw a fresh gate"
        )
    return f"{what}no task was scored for both; evaluate again"


def _plain(name: str) -> str:
    names = {"warm_start": "warm start", "champion": "the champion", "constant": "the best constant answer"}
    return names.get(name, name)


def _absent(name: str) -> list[str]:
    if name == "constant":
        return []
    if name == "champion":
        return ["no champion to compare with: this would be the first"]
    return ["no warm start in this run: that comparison is left out"]


def _sentence(
    name: str, metric: str, found: Comparison, minimum: float, obstacle: str | None, confidence: float
) -> str:
    difference = found.difference
    over = f"{difference.count} tasks"
    if difference.groups != difference.count:
        over += f" in {difference.groups} groups"
    text = (
        f"{'passes' if obstacle is None and found.exceeds(minimum) else 'fails'}: {metric} on gate of trained minus "
        f"{_plain(name)} is {difference.mean:+.4f} ({100 * confidence:.4g} % interval {difference.low:+.4f} to "
        f"{difference.high:+.4f}, {over}); the lower bound must exceed {minimum:+.4f}"
    )
    if found.errors:
        text += (
            f"; counting {found.errors} rollouts without a score against the trained policy, it is "
            f"{found.low_with_errors:+.4f}"
        )
    if found.without_score:
        shown = ", ".join(found.without_score[:_NAMED]) + ", ..." * (len(found.without_score) > _NAMED)
        text += f"; {len(found.without_score)} tasks without a score for either are left out: {shown}"
    if not found.declared:
        text += "; the range of this score is not known, so rare large losses that did not occur may be missing"
    return text if obstacle is None else f"{text}; but {obstacle}"
