"""The rules that a trained policy must keep to become the champion, each with a verdict in a sentence.

`judge_improvement`: trained minus each rival must exceed a minimum on the gate. `judge_suites`: it must be shown not to
lose more than a margin on some suites. `judge_slices`: it must not be shown worse in a slice of the gate.
`judge_length`: its attempts must be shown not to be longer than those of the model in use by more than a factor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from statistics import fmean

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
from rlft.evaluation.power import few_groups
from rlft.evaluation.statistics import IMAGINED_OF_DIFFERENCE, Range, mean_interval
from rlft.texts.blocks import change, ends
from rlft.types import EvaluationReport, Interval


@dataclass(frozen=True, slots=True)
class Rules:
    """What must hold beside the improvement on the gate. By default nothing.

    `suites` are the margins, in the metric, that the trained policy must be shown not to lose on each named suite.
    `slices` are {name: ids of its tasks} of the gate; in none of them may it be shown worse, and `slice_margin` is the
    loss that one must be able to see to say `no worse`. The mean length of its attempts may be at most
    `max_length_ratio` times that of the model in use. With `audit_required` the run's reward must have passed its
    audit.
    """

    suites: Mapping[str, float] = field(default_factory=dict)
    slices: Mapping[str, frozenset[str]] = field(default_factory=dict)
    slice_margin: float = 0.05
    max_length_ratio: float | None = None
    audit_required: bool = False


NO_RULES = Rules()


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


_STEPS = 30  # of bisection: the bound is found to a millionth of the largest one
_LARGEST = 1000.0  # a ratio beyond which no upper bound is looked for


@dataclass(frozen=True, slots=True)
class LengthRatio:
    """The mean length of one policy's attempts (`ours`, in tokens) over that of another's (`theirs`).

    `high` is the upper bound of the ratio, `None` if it has none below a thousand; `holds` says whether it is at most
    the ratio that was asked for. `tasks` is how many are compared, `errors` how many rollouts have no length and count
    against ours, and `obstacle` why this is no evidence, `None` if it is.
    """

    ours: float
    theirs: float
    high: float | None
    holds: bool
    tasks: int
    errors: int
    obstacle: str | None

    @property
    def ratio(self) -> float:
        """Ours over theirs; infinite if theirs are empty."""
        return self.ours / self.theirs if self.theirs else float("inf")


def compare_lengths(
    ours: EvaluationReport, theirs: EvaluationReport, most: float, *, where: str, confidence: float = 0.95
) -> LengthRatio | None:
    """Return whether the mean length of ours is at most `most` times that of theirs, task by task.

    It is if the upper bound of the mean of `ours - most * theirs` is at most 0 (Fieller 1954, JRSS B 16), over groups
    of tasks, at this two-sided `confidence`. A rollout of ours without a score counts as the longest that either has,
    one of theirs as empty, so that errors never help. A length is that of the completion, with the results of tools.
    `where` names the tasks in sentences. `None` if no task has a length for either.

    The longest attempt of one of both stands in for the longest that is possible, so nothing tells of rare long
    attempts that did not occur. The limits of a rollout cannot take its place: they bound a turn, and a conversation by
    far more than is usual. Where a limit is 20 times the mean length no policy passes on 200 tasks, not even one that
    is no longer.
    """
    known = ours.lengths.keys() | theirs.lengths.keys()
    kept = sorted(known & (ours.lengths.keys() | ours.errors.keys()) & (theirs.lengths.keys() | theirs.errors.keys()))
    if not kept:
        return None
    longest = max(ours.longest, theirs.longest, *ours.lengths.values(), *theirs.lengths.values())
    a, b = _filled(ours, kept, longest), _filled(theirs, kept, 0.0)
    groups = {**theirs.groups, **ours.groups}

    def upper(ratio: float) -> float:
        differences = {task: a[task] - ratio * b[task] for task in kept}
        ends = Range(-ratio * longest, longest)
        return mean_interval(differences, groups, ends, imagined=IMAGINED_OF_DIFFERENCE, confidence=confidence).high

    interval = mean_interval(a, groups)
    return LengthRatio(
        ours=fmean(a.values()),
        theirs=fmean(b.values()),
        high=_bound(upper),
        holds=(obstacle := few_groups(where, interval.groups, interval.effective_groups)) is None and upper(most) <= 0,
        tasks=len(kept),
        errors=sum(report.errors.get(task, 0) for report in (ours, theirs) for task in kept),
        obstacle=obstacle,
    )


def _filled(report: EvaluationReport, tasks: list[str], length: float) -> dict[str, float]:
    """Return {task id: mean length}, in which rollouts without a score have this one."""
    shares = {task: min(1.0, report.errors.get(task, 0) / report.num_samples) for task in tasks}
    return {task: (1 - shares[task]) * report.lengths.get(task, length) + shares[task] * length for task in tasks}


def _bound(upper: Callable[[float], float]) -> float | None:
    """Return the smallest ratio whose `upper` bound is at most 0."""
    low, high = 0.0, _LARGEST
    if upper(high) > 0:
        return None
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if upper(middle) <= 0 else (middle, high)
    return high


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


def judge_length(
    trained: EvaluationReport, rival: EvaluationReport, name: str, most: float, confidence: float
) -> Verdict:
    """Return whether the attempts of the policy are shown to be at most `most` times as long as its rival's.

    `name` is the rival's.
    """
    found = compare_lengths(trained, rival, most, where="gate", confidence=confidence)
    if found is None:
        return Verdict("length", True, f"fails: the lengths of the attempts of trained or {plain(name)} are not known")
    bound = "no upper bound below 1000" if found.high is None else f"upper bound {found.high:.3g}"
    text = (
        f"{'passes' if found.holds else 'fails'}: completions of trained have {found.ours:.4g} tokens on gate, those "
        f"of {plain(name)} {found.theirs:.4g}, {found.ratio:.3g} times as many ({100 * confidence:.4g} % interval, "
        f"{bound}, {found.tasks} tasks); the bound may be {most:g}; "
        "rare long attempts that did not occur may be missing"
    )
    if found.errors:
        text += f"; {found.errors} rollouts without a score count against the trained policy"
    return Verdict("length", not found.holds, f"{text}; but {found.obstacle}" if found.obstacle else text)
