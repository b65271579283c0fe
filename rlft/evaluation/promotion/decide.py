"""Decides from evaluation reports whether a trained policy becomes the champion, and says why."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel

from rlft.evaluation.gates import FIRST_LOOK, Look, confidence_at, next_look, why_refused
from rlft.evaluation.promotion.rules import (
    NO_RULES,
    Rules,
    Verdict,
    judge_improvement,
    judge_slices,
    judge_suites,
)
from rlft.evaluation.variety import collapse, kept_variety
from rlft.types import EvaluationReport, Interval, Report

Approval = Literal["", "pending", "approved", "rejected"]


class Known(BaseModel):
    """What a decision takes into account beside the scores.

    `look` and `spent` are those of a `gates.Look`; `champion_knows` are ids of tasks that the champion was
    trained on, `None` if these are not known, `audit` says whether the reward has passed its audit, if it had one, and
    `monitor` names a monitor that was to stop the run.
    """

    look: int = 1
    spent: float = 1.0
    champion_knows: list[str] | None = None
    audit: bool | None = None
    monitor: str = ""


@dataclass(frozen=True, slots=True)
class Decision(Report):
    """Holds the outcome of the gate.

    `reasons` has a sentence for each comparison. `comparisons` maps `warm_start`, `base`, `champion` and `constant`
    (the best constant answer) to the difference (trained minus that policy) with its interval, for those that could
    be compared, at the level of one of `looks` looks at the gate. `look` is the number of this one. `rules` says of
    each kind of rule that was asked (`improvement`, `suites`, `slices`, `audit`, `answers`, `monitors`)
    whether it `passes` or `fails`.
    """

    promote: bool
    reasons: tuple[str, ...]
    comparisons: dict[str, Interval] = field(default_factory=dict)
    look: int = 1
    looks: int = 1
    rules: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RegisteredVersion(Report):
    """Names a version in the model registry, and the aliases that point to it now.

    `approval` says what a person has decided about it, if one is to decide. `withheld` is why it did not become the
    champion although the decision was to promote it; empty if that is not so.
    """

    name: str
    version: str
    model_id: str | None
    aliases: tuple[str, ...]
    approval: Approval = ""
    withheld: str = ""


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
    look: Look | None = None,
    looks: int = 1,
    champion_knows: Collection[str] | None = (),
    rules: Rules = NO_RULES,
    suites: Mapping[str, Mapping[str, EvaluationReport]] | None = None,
    audit: bool | None = None,
    monitor: str = "",
) -> Decision:
    """Promote only if trained minus each rival has a lower bound strictly above `min_improvement` (in the metric).

    The bound must also hold when errors count against the trained policy (`comparison`), the split must have at
    least `MIN_GROUPS` groups (`power`), and the answers must not have collapsed to a few (`rlft.evaluation.variety`).
    `warm_start` is `None` in a run without one, `champion` before the first promotion, `constant`, the best constant
    answer, where none could be scored. The policy that is champion already is not promoted again.

    `look` says which decision on these tasks this is, `None` of the only one, of at most `looks`, which the level of
    the intervals is for (`gates.confidence_at`). `champion_knows` are ids of tasks that the champion was
    trained on, which are left out of the comparison with it; `None` if they are not known. What else must hold are
    `rules`: `suites` are the reports for those of them, {suite: {trained, base, ...: report}}, and `audit` says whether
    the reward has passed its audit, `None` if it was not audited. `monitor` names one that was to stop the run. Slices
    are compared with the model in use: the champion, or before the first promotion the base model. Raises
    ValueError if the reports are of different splits or lack the metric.
    """
    look, is_counted = look or FIRST_LOOK, look is not None
    rivals = {"warm_start": warm_start, "base": base, "champion": champion, "constant": constant}
    _check_splits([trained, *(report for report in rivals.values() if report is not None)])
    if champion is not None and champion.policy == trained.policy:
        already = (f"the trained policy {trained.policy[:12]} is the champion already",)
        return Decision(False, already, look=look.number, looks=looks)
    confidence = confidence_at(looks)
    verdicts, comparisons = judge_improvement(trained, rivals, metric, min_improvement, confidence, champion_knows)
    verdicts += judge_suites(suites or {}, rules.suites, metric, confidence)
    in_use, name, known = (base, "base", ()) if champion is None else (champion, "champion", champion_knows or ())
    if rules.slices:
        verdicts += judge_slices(trained, in_use, name, metric, rules, known)
    verdicts += [_of_audit(audit)] if rules.audit_required else []
    verdicts += _of_answers(trained, warm_start or base) + _of_monitor(monitor)
    promote = look.is_allowed and not any(verdict.blocks for verdict in verdicts)
    reasons = [*_of_looks(look, looks, confidence), *(verdict.sentence for verdict in verdicts)]
    if is_counted:
        reasons += _of_the_next(look, looks)
    if promote:
        reasons.append(_NOT_THE_RECIPE)
    return Decision(promote, tuple(reasons), comparisons, look.number, looks, _by_rule(verdicts))


def _by_rule(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """Return of each kind of rule whether it passes."""
    failed = {verdict.rule for verdict in verdicts if verdict.blocks}
    return {rule: "fails" if rule in failed else "passes" for rule in dict.fromkeys(each.rule for each in verdicts)}


def _of_answers(trained: EvaluationReport, start: EvaluationReport) -> list[Verdict]:
    """Return whether the answers have collapsed to a few; nothing where nobody can tell."""
    if collapsed := collapse(trained, start):
        return [Verdict("answers", True, f"fails: {collapsed}")]
    kept = kept_variety(trained, start)
    return [Verdict("answers", False, f"passes: {kept}")] if kept else []


def _of_audit(passed: bool | None) -> Verdict:
    if passed:
        return Verdict("audit", False, "passes: the reward has passed its audit")
    why = "has not been audited (reward.audit: false)" if passed is None else "has not passed its audit"
    return Verdict("audit", True, f"fails: the reward {why}, and promotion.audit is required")


def _of_monitor(monitor: str) -> list[Verdict]:
    """Return that a monitor was to stop the run; nothing of a run in which none was."""
    if not monitor:
        return []
    said = f"fails: the monitor {monitor} has seen that the reward may pay what is not wanted (monitors.{monitor})"
    return [Verdict("monitors", True, said)]


def _of_looks(look: Look, looks: int, confidence: float) -> list[str]:
    """Return what this look means, in a sentence; nothing for the only one."""
    if refused := why_refused(look, looks):
        return [f"fails: {refused}"]
    if looks == 1:
        return []
    level = f"{100 * confidence:.4g} %"
    which = f"{look.number} of {looks}" if look.number <= looks else str(look.number)
    return [f"look {which} at this gate: each decision is at {level}, so that chance promotes in few of them"]


def _of_the_next(look: Look, looks: int) -> list[str]:
    """Return a sentence if this look has spent so much that no further one is allowed."""
    if not look.is_allowed or next_look(look, looks).is_allowed:
        return []
    return [
        f"this look was the last one at this gate with promotion.looks: {looks}; the next model needs a fresh gate "
        "(another tasks.seed, or new tasks)"
    ]


def _check_splits(reports: list[EvaluationReport]) -> None:
    splits = sorted({report.split for report in reports})
    if len(splits) > 1:
        raise ValueError(f"the reports are of different splits: {', '.join(splits)}")
