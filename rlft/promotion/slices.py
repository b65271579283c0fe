"""Slices of the gate: groups of tasks in which the trained policy must not be shown worse."""

from __future__ import annotations

from collections.abc import Collection

from rlft.blocks import change
from rlft.noninferiority import FAMILY, Slice, compare_slices
from rlft.promotion.rules import Rules, Verdict
from rlft.promotion.sentences import plain
from rlft.types import EvaluationReport

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
