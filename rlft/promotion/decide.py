"""Decides from evaluation reports whether a trained policy becomes the champion, and says why."""

from __future__ import annotations

from collections.abc import Collection

from rlft.comparison import compare
from rlft.gates.looks import FIRST_LOOK, Look, confidence_at, why_refused
from rlft.promotion.decision import Decision
from rlft.promotion.sentences import absent, incomparable, obstacle_of, of_known_tasks, sentence
from rlft.types import EvaluationReport
from rlft.variety import collapse

_NOT_THE_RECIPE = (
    "this judges the trained policy, not the settings that made it: a claim about those takes runs with at least three "
    "seeds"
)


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
    least `MIN_GROUPS` groups (`rlft.power`), and the answers must not have collapsed to a few (`rlft.variety`).
    `warm_start` is `None` in a run without one, `champion` before the first promotion, `constant`, the best constant
    answer, where none could be scored. The policy that is champion already is not promoted again.

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
            reasons += absent(name)
            continue
        without = champion_knows or () if name == "champion" else ()
        found = compare(trained, rival, metric, confidence=confidence, without=without)
        if found is None:
            promote = False
            reasons.append(incomparable(name, without))
            continue
        comparisons[name] = found.difference
        obstacle = obstacle_of(found)
        promote = promote and obstacle is None and found.exceeds(min_improvement)
        reasons.append(sentence(name, metric, found, min_improvement, obstacle, confidence))
        if name == "champion":
            reasons[-1] += of_known_tasks(champion_knows)
    if collapsed := collapse(trained, warm_start or base):
        promote = False
        reasons.append(f"fails: {collapsed}")
    if promote:
        reasons.append(_NOT_THE_RECIPE)
    return Decision(promote, tuple(reasons), comparisons, look.number, looks)


def _of_looks(look: Look, looks: int, confidence: float) -> list[str]:
    """Return what this look means, in a sentence; nothing for the only one."""
    if refused := why_refused(look, looks):
        return [f"fails: {refused}"]
    if looks == 1:
        return []
    level = f"{100 * confidence:.4g} %"
    which = f"{look.number} of {looks}" if look.number <= looks else str(look.number)
    return [f"look {which} at this gate: each decision is at {level}, so that chance promotes in few of them"]


def _check_splits(reports: list[EvaluationReport]) -> None:
    splits = sorted({report.split for report in reports})
    if len(splits) > 1:
        raise ValueError(f"the reports are of different splits: {', '.join(splits)}")
