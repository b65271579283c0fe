"""Suites on which the trained policy must be shown not to lose more than a margin."""

from __future__ import annotations

from collections.abc import Mapping

from rlft.blocks import change
from rlft.noninferiority import Loss, loses_no_more
from rlft.promotion.rules import Verdict
from rlft.promotion.sentences import plain, sentence
from rlft.types import EvaluationReport


def judge_suites(
    suites: Mapping[str, Mapping[str, EvaluationReport]],
    margins: Mapping[str, float],
    metric: str,
    confidence: float,
) -> list[Verdict]:
    """Return a verdict on each suite of `margins` against each rival: a loss of the margin must be ruled out there.

    `suites` maps its name to the reports of `trained` and of the rivals that there are, by their names. All must pass,
    each at this `confidence` (`rlft.noninferiority.loses_no_more`). Raises ValueError if a report lacks the metric.
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
