"""Decides from evaluations whether a trained policy becomes the champion: by rules, each with a verdict.

Trained minus each rival must exceed a minimum on the gate; it must be shown not to lose more than a margin on some
suites; and it must not be shown worse in a slice of the gate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import BaseModel

from rlft.config import PromotionConfig
from rlft.evaluation.comparison import FAMILY, Comparison, Slice, compare, compare_slices, obstacle_of
from rlft.evaluation.gates import Look, confidence_at, why_refused
from rlft.evaluation.variety import collapse
from rlft.texts.blocks import change, ends
from rlft.types import Evaluation, EvaluationReport, Interval, Report


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule says, in a sentence, and whether it keeps the policy from being promoted."""

    rule: str
    blocks: bool
    sentence: str


_NAMED = 3  # tasks that a sentence names
_SHOWN = 12  # slices that a sentence names
_RIVALS = ("warm_start", "base", "champion", "constant")
_PLAIN = {"warm_start": "warm start", "champion": "the champion", "constant": "the best constant answer"}
_ABSENT = {
    "warm_start": "no warm start in this run: that comparison is left out",
    "champion": "no champion to compare with: this would be the first",
}  # nothing is said of a constant answer that could not be scored


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked of the trained policy and a rival: that a bound exceeds `minimum`, in the metric, on `where`.

    The tasks of `without` are left out, and `remark` ends the sentence.
    """

    trained: EvaluationReport
    rival: EvaluationReport
    name: str
    where: str
    metric: str
    minimum: float
    confidence: float
    without: Collection[str] = ()
    remark: str = ""

    def judged(self, rule: str) -> tuple[Verdict, Comparison | None]:
        """Return the verdict, and the comparison that it rests on; `None` if no task was scored for both."""
        found = compare(self.trained, self.rival, self.metric, confidence=self.confidence, without=self.without)
        if found is None:
            return Verdict(rule, True, self._incomparable()), None
        obstacle = obstacle_of(found, self.where)
        passes = obstacle is None and found.exceeds(self.minimum)
        return Verdict(rule, not passes, self._sentence(found, obstacle, passes=passes)), found

    def _incomparable(self) -> str:
        name = _PLAIN.get(self.name, self.name)
        what = f"fails: trained and {name} cannot be compared on {self.where}: "
        if self.without:
            return f"{what}{name} was trained on {len(self.without)} of its tasks, and none is left; draw a fresh gate"
        return f"{what}no task was scored for both; evaluate again"

    def _sentence(self, found: Comparison, obstacle: str | None, *, passes: bool) -> str:
        metric, difference = self.metric, found.difference
        text = (
            f"{'passes' if passes else 'fails'}: {metric} on {self.where} of trained minus "
            f"{_PLAIN.get(self.name, self.name)} is {change(difference.mean, metric)} ({100 * self.confidence:.4g} % "
            f"interval {ends(difference.low, difference.high, metric)}, {_over(difference)}); the lower bound must "
            f"exceed {change(self.minimum, metric)}"
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
        return (text if obstacle is None else f"{text}; but {obstacle}") + self.remark


def _over(difference: Interval) -> str:
    of_groups = "" if difference.groups == difference.count else f" in {difference.groups} groups"
    return f"{difference.count} tasks{of_groups}"


def _of_known_tasks(known: Collection[str] | None) -> str:
    """Return the end of a sentence that says on which tasks of the gate the champion was trained."""
    if known is None:
        return "; its run has not noted its tasks, so it may have been trained on some of these"
    return f"; {len(known)} tasks that it was trained on are left out" if known else ""


def _of_suites(
    arms: Mapping[str, Evaluation], rules: PromotionConfig, metric: str, confidence: float
) -> Iterator[Verdict]:
    """Yield a verdict on each suite against each rival: a loss of its margin must be ruled out there.

    A policy that loses exactly the margin passes with a chance of (1 - confidence) / 2. All suites must pass, each at
    this `confidence`: that one of them is lost is rejected only if it is of each, so nothing has to be corrected for
    their number (intersection-union test: Berger 1982, Technometrics 24).
    """
    for suite, rule in rules.suites.items():
        reports = {name: arm.splits[suite] for name, arm in arms.items() if suite in arm.splits and name != "constant"}
        trained = reports.pop("trained", None)
        if trained is None or not reports:
            missing = f"fails: the trained policy and its rivals have no evaluation on {suite}; evaluate them on it"
            yield Verdict("suites", True, missing)
            continue
        for name, rival in reports.items():
            yield _Asked(trained, rival, name, suite, metric, -rule.margin, confidence).judged("suites")[0]


def _of_slices(found: Sequence[Slice], rival: str, metric: str) -> Iterator[Verdict]:
    """Yield a verdict for each slice in which the policy is shown worse than its rival, and one for all others."""
    rival = _PLAIN.get(rival, rival)
    for each in found:
        if each.is_worse:
            text = (
                f"fails: in the slice {_of_slice(each, metric)} {metric} of trained is below that of {rival}, which "
                f"chance would show in any of these slices in at most {FAMILY:.0%} of decisions if none were worse"
            )
            yield Verdict("slices", True, text)
    if others := [_of_slice(each, metric) for each in found if not each.is_worse]:
        more = f"; and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        yield Verdict("slices", False, f"passes: not shown worse than {rival} in {'; '.join(others[:_SHOWN])}{more}")


def _of_slice(each: Slice, metric: str) -> str:
    """Return the name of a slice with the difference there, and over what it is."""
    difference = each.difference
    if difference is None:
        return f"{each.name} (no task scored)"
    errors = f", {each.errors} attempts without a score" if each.errors else ""
    interval = ends(difference.low, difference.high, metric)
    return f"{each.name} ({change(difference.mean, metric)}, {interval}, {_over(difference)}{errors})"


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
    arms: Mapping[str, Evaluation],
    metric: str,
    rules: PromotionConfig,
    known: Known,
    slices: Mapping[str, frozenset[str]],
) -> Decision:
    """Promote only if trained minus each rival has a lower bound strictly above `rules.min_improvement`.

    The bound must also hold when errors count against the trained policy (`comparison`), the gate must have at least
    `MIN_GROUPS` groups (`power`), and the answers must not have collapsed to a few (`rlft.evaluation.variety`). `arms`
    are the evaluations of `trained` and `base`, and of `warm_start`, `champion` and `constant`, the best constant
    answer, where there are such. The policy that is champion already is not promoted again.

    The level of the intervals is that of one of so many looks (`gates.confidence_at`). `slices` are {name: ids of its
    tasks} of the gate; they are compared with the model in use: the champion, or before the first promotion the base
    model. Raises ValueError if a report lacks the metric.
    """
    gate = {name: arm.splits["gate"] for name, arm in arms.items() if "gate" in arm.splits}
    trained, champion = gate["trained"], gate.get("champion")
    look, looks, champion_knows = Look(max(known.look, 1), known.spent), rules.looks, known.champion_knows
    if champion is not None and champion.policy == trained.policy:
        already = (f"the trained policy {trained.policy[:12]} is the champion already",)
        return Decision(False, already, look=look.number, looks=looks)
    confidence = confidence_at(looks)
    verdicts, comparisons = list[Verdict](), dict[str, Interval]()
    for name in _RIVALS:
        if name not in gate:
            verdicts += [Verdict("improvement", False, _ABSENT[name])] if name in _ABSENT else []
            continue
        asked = _Asked(trained, gate[name], name, "gate", metric, rules.min_improvement, confidence)
        if name == "champion":
            asked = replace(asked, without=champion_knows or (), remark=_of_known_tasks(champion_knows))
        verdict, found = asked.judged("improvement")
        verdicts.append(verdict)
        comparisons |= {name: found.difference} if found else {}
    verdicts += _of_suites(arms, rules, metric, confidence)
    if slices:
        name, left_out = ("base", ()) if champion is None else ("champion", champion_knows or ())
        verdicts += _of_slices(compare_slices(trained, gate[name], metric, slices, without=left_out), name, metric)
    verdicts += [_of_audit(known.audit)] if rules.audit == "required" else []
    if collapsed := collapse(trained, gate.get("warm_start", gate["base"])):
        verdicts.append(Verdict("answers", True, f"fails: {collapsed}"))
    if name := known.monitor:
        said = f"fails: the monitor {name} has seen that the reward may pay what is not wanted (monitors.{name})"
        verdicts.append(Verdict("monitors", True, said))
    promote = look.is_allowed and not any(verdict.blocks for verdict in verdicts)
    reasons = [*_of_looks(look, looks, confidence), *(verdict.sentence for verdict in verdicts)]
    if promote:
        reasons.append(_NOT_THE_RECIPE)
    return Decision(promote, tuple(reasons), comparisons, look.number, looks, _by_rule(verdicts))


def _by_rule(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """Return of each kind of rule whether it passes."""
    failed = {verdict.rule for verdict in verdicts if verdict.blocks}
    return {rule: "fails" if rule in failed else "passes" for rule in dict.fromkeys(each.rule for each in verdicts)}


def _of_audit(passed: bool | None) -> Verdict:
    if passed:
        return Verdict("audit", False, "passes: the reward has passed its audit")
    why = "has not been audited (reward.audit: false)" if passed is None else "has not passed its audit"
    return Verdict("audit", True, f"fails: the reward {why}, and promotion.audit is required")


def _of_looks(look: Look, looks: int, confidence: float) -> list[str]:
    """Return what this look means, in a sentence; nothing for the only one."""
    if refused := why_refused(look, looks):
        return [f"fails: {refused}"]
    if looks == 1:
        return []
    level = f"{100 * confidence:.4g} %"
    which = f"{look.number} of {looks}" if look.number <= looks else str(look.number)
    return [f"look {which} at this gate: each decision is at {level}, so that chance promotes in few of them"]
