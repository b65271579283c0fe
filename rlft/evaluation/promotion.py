"""Decides from evaluation reports whether a trained policy becomes the champion: by rules, each with a verdict.

`judge_improvement`: trained minus each rival must exceed a minimum on the gate. `judge_suites`: it must be shown not to
lose more than a margin on some suites. `judge_slices`: it must not be shown worse in a slice of the gate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel

from rlft.evaluation.comparison import (
    FAMILY,
    Comparison,
    Loss,
    Slice,
    compare,
    compare_slices,
    loses_no_more,
    obstacle_of,
)
from rlft.evaluation.gates import Look, confidence_at, next_look, why_refused
from rlft.evaluation.variety import collapse, kept_variety
from rlft.texts.blocks import change, ends
from rlft.types import EvaluationReport, Interval, Report


@dataclass(frozen=True, slots=True)
class Rules:
    """What must hold.

    `min_improvement` is by how much, in the metric, the policy must be better than each rival on the gate, which may be
    looked at `looks` times. `suites` are the margins, in the metric, that it must be shown not to lose on each named
    suite. `slices` are {name: ids of its tasks} of the gate; in none of them may it be shown worse, and `slice_margin`
    is the loss that one must be able to see to say `no worse`. With `audit_required` the run's reward must have passed
    its audit.
    """

    min_improvement: float = 0.0
    looks: int = 1
    suites: Mapping[str, float] = field(default_factory=dict)
    slices: Mapping[str, frozenset[str]] = field(default_factory=dict)
    slice_margin: float = 0.05
    audit_required: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule says, in a sentence, and whether it keeps the policy from being promoted."""

    rule: str
    blocks: bool
    sentence: str


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


def judge_improvement(
    trained: EvaluationReport,
    rivals: Mapping[str, EvaluationReport | None],
    metric: str,
    minimum: float,
    confidence: float,
    champion_knows: Collection[str] | None,
) -> tuple[list[Verdict], dict[str, Interval]]:
    """Return a verdict for each rival, and the differences to those that could be compared.

    `None` stands for a rival that there is not. `champion_knows` are ids of tasks that the champion was trained on,
    which are left out of the comparison with it; `None` if they are not known. Raises ValueError if a report lacks the
    metric.
    """
    verdicts: list[Verdict] = []
    comparisons: dict[str, Interval] = {}
    for name, rival in rivals.items():
        if rival is None:
            verdicts += [Verdict("improvement", False, each) for each in absent(name)]
            continue
        without = champion_knows or () if name == "champion" else ()
        found = compare(trained, rival, metric, confidence=confidence, without=without)
        if found is None:
            verdicts.append(Verdict("improvement", True, incomparable(name, without)))
            continue
        comparisons[name] = found.difference
        obstacle = obstacle_of(found, "gate")
        said = sentence(name, metric, found, minimum, obstacle, confidence)
        said += of_known_tasks(champion_knows) if name == "champion" else ""
        verdicts.append(Verdict("improvement", obstacle is not None or not found.exceeds(minimum), said))
    return verdicts, comparisons


def judge_suites(
    suites: Mapping[str, Mapping[str, EvaluationReport]],
    margins: Mapping[str, float],
    metric: str,
    confidence: float,
) -> list[Verdict]:
    """Return a verdict on each suite of `margins` against each rival: a loss of the margin must be ruled out there.

    `suites` maps its name to the reports of `trained` and of the rivals that there are, by their names. All must pass,
    each at this `confidence` (`comparison.loses_no_more`). Raises ValueError if a report lacks the metric.
    """
    verdicts = []
    for name, margin in margins.items():
        reports = dict(suites.get(name, {}))
        trained = reports.pop("trained", None)
        if trained is None or not reports:
            missing = f"fails: the trained policy and its rivals have no evaluation on {name}; evaluate them on it"
            verdicts.append(Verdict("suites", True, missing))
            continue
        for rival, report in reports.items():
            verdicts.append(_verdict(name, rival, trained, report, metric, margin, confidence))
    return verdicts


def _verdict(
    name: str,
    rival: str,
    trained: EvaluationReport,
    report: EvaluationReport,
    metric: str,
    margin: float,
    confidence: float,
) -> Verdict:
    found = loses_no_more(trained, report, metric, margin, where=name, confidence=confidence)
    if found is None:
        nothing = f"fails: on {name} trained and {plain(rival)} have no task that was scored for both; evaluate again"
        return Verdict("suites", True, nothing)
    text = sentence(rival, metric, found.found, -margin, found.obstacle, confidence, where=name)
    return Verdict("suites", not found.holds, text + _what_it_means(found, metric))


def _what_it_means(found: Loss, metric: str) -> str:
    """Return the end of a sentence about a suite that has not passed: a loss, or too few tasks to rule one out."""
    if found.holds or found.obstacle is not None:
        return ""
    if found.found.high_with_errors < 0:
        return ": it loses"
    if found.visible is None:
        return ": that it does not lose more is not shown"
    visible = change(found.visible, metric)[1:]
    return f": that it does not lose more is not shown, and so many tasks can show about {visible}"


_SHOWN = 12  # slices that a sentence names


def judge_slices(
    trained: EvaluationReport,
    rival: EvaluationReport,
    name: str,
    metric: str,
    rules: Rules,
    without: Collection[str] = (),
) -> list[Verdict]:
    """Return a verdict for each slice in which the policy is worse than its `rival`, and one for each other kind.

    `name` is the rival's, and tasks of `without` are left out. Raises ValueError if a report lacks the metric.
    """
    found = compare_slices(trained, rival, metric, rules.slices, rules.slice_margin, without=without)
    margin = change(rules.slice_margin, metric)[1:]
    verdicts = [Verdict("slices", True, _worse(each, name, metric)) for each in found if each.verdict == "worse"]
    if none := [each for each in found if each.verdict == "no worse"]:
        shown = _listed(none, metric)
        text = (
            f"no worse than {plain(name)}: {shown}. A loss of {margin} is excluded there, or would have been "
            "found four times out of five"
        )
        verdicts.append(Verdict("slices", False, text))
    if hidden := [each for each in found if each.hidden]:
        text = (
            f"cannot tell whether it is worse than {plain(name)}: {_listed(hidden, metric)}. These slices block nothing"
        )
        verdicts.append(Verdict("slices", False, text))
    if unclear := [each for each in found if each.verdict == "cannot tell" and not each.hidden]:
        text = (
            f"cannot tell whether it is worse than {plain(name)} by {margin}: {_listed(unclear, metric)}. These "
            "slices have too few tasks for that, and block nothing"
        )
        verdicts.append(Verdict("slices", False, text))
    return verdicts


def _worse(each: Slice, rival: str, metric: str) -> str:
    assert each.difference is not None
    text = (
        f"fails: in the slice {each.name} {metric} of trained minus {plain(rival)} is "
        f"{change(each.difference.mean, metric)} ({each.difference.count} tasks), which chance would show in any of "
        f"these slices in at most {FAMILY:.0%} of decisions if none were worse"
    )
    if each.errors:
        text += f"; it is worse, too, if {each.errors} rollouts without a score are counted in its favour"
    return text


def _listed(slices: list[Slice], metric: str) -> str:
    shown = "; ".join(_named(each, metric) for each in slices[:_SHOWN])
    return shown + (f"; and {len(slices) - _SHOWN} more" if len(slices) > _SHOWN else "")


def _named(each: Slice, metric: str) -> str:
    if each.difference is None:
        return f"{each.name} (no task scored)"
    told = f"{each.name} ({change(each.difference.mean, metric)}, {each.difference.count} tasks"
    if each.difference.groups != each.difference.count:
        told += f" in {each.difference.groups} groups"
    if each.hidden:
        told += f"; {each.errors} attempts without a score could hide a loss"
    elif each.verdict == "cannot tell" and each.visible is not None:
        told += f", finds a loss of {change(each.visible, metric)[1:]}"
    return f"{told})"


Approval = Literal["", "pending", "approved", "rejected"]


class Known(BaseModel):
    """What a decision takes into account beside the scores.

    `look` and `spent` are those of a `gates.Look`; no look is of the only one, which nobody counts. `champion_knows`
    are ids of tasks that the champion was trained on, which are left out of the comparison with it, `None` if they are
    not known. `audit` says whether the reward has passed its audit, if it had one, and `monitor` names a monitor that
    was to stop the run.
    """

    look: int = 0
    spent: float = 1.0
    champion_knows: list[str] | None = []
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
    metric: str,
    *,
    constant: EvaluationReport | None = None,
    suites: Mapping[str, Mapping[str, EvaluationReport]] | None = None,
    rules: Rules | None = None,
    known: Known | None = None,
) -> Decision:
    """Promote only if trained minus each rival has a lower bound strictly above `rules.min_improvement`.

    The bound must also hold when errors count against the trained policy (`comparison`), the split must have at
    least `MIN_GROUPS` groups (`power`), and the answers must not have collapsed to a few (`rlft.evaluation.variety`).
    `warm_start` is `None` in a run without one, `champion` before the first promotion, `constant`, the best constant
    answer, where none could be scored. The policy that is champion already is not promoted again.

    The level of the intervals is that of one of so many looks (`gates.confidence_at`). `suites` are the reports for the
    rules on these, {suite: {trained, base, ...: report}}. Slices are compared with the model in use: the champion, or
    before the first promotion the base model. Raises ValueError if the reports are of different splits or lack the
    metric.
    """
    rules, known = rules or Rules(), known or Known()
    look, looks, champion_knows = Look(max(known.look, 1), known.spent), rules.looks, known.champion_knows
    rivals = {"warm_start": warm_start, "base": base, "champion": champion, "constant": constant}
    _check_splits([trained, *(report for report in rivals.values() if report is not None)])
    if champion is not None and champion.policy == trained.policy:
        already = (f"the trained policy {trained.policy[:12]} is the champion already",)
        return Decision(False, already, look=look.number, looks=looks)
    confidence = confidence_at(looks)
    verdicts, comparisons = judge_improvement(
        trained, rivals, metric, rules.min_improvement, confidence, champion_knows
    )
    verdicts += judge_suites(suites or {}, rules.suites, metric, confidence)
    in_use, name, left_out = (base, "base", ()) if champion is None else (champion, "champion", champion_knows or ())
    if rules.slices:
        verdicts += judge_slices(trained, in_use, name, metric, rules, left_out)
    verdicts += [_of_audit(known.audit)] if rules.audit_required else []
    verdicts += _of_answers(trained, warm_start or base) + _of_monitor(known.monitor)
    promote = look.is_allowed and not any(verdict.blocks for verdict in verdicts)
    reasons = [*_of_looks(look, looks, confidence), *(verdict.sentence for verdict in verdicts)]
    if known.look:
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
