"""The sentence that heads what came of a run: its outcome, the numbers, and what controls say of them."""

from __future__ import annotations

from collections.abc import Mapping

from mlops.summary.controls import label_of
from mlops.summary.sections import Difference
from mlops.summary.summary import Status, Summary
from rlft import blocks
from rlft.blocks import ends, level

OUTCOMES: Mapping[Status, str] = {
    "running": "The run has not ended",
    "improved": "The trained model is better than what it started from",
    "not_improved": "The trained model is not measurably better than what it started from",
    "too_hard": "Not trained: the model solves none of these tasks, so nothing can be learnt",
    "already_solved": "Not trained: the model solves these tasks already",
    "failed": "The run failed",
    "interrupted": "The run was interrupted",
}
UNCHANGED = "In validation no round did better than what training started from, which is what was kept and tested"
WORSE = "The trained model is measurably worse than what it started from"
_UNKNOWN = "whether something simpler does as well is unknown"


def headline(summary: Summary) -> str:
    """Return the outcome in one sentence, with the gain, and that no control does as well where that was shown."""
    said, change = OUTCOMES[summary.status], summary.difference
    if change is None or summary.status not in ("improved", "not_improved"):
        return f"{said}."
    if change.is_below_zero:
        said = WORSE
    elif summary.best_round == 0 and change.before == change.after:
        said = UNCHANGED
    return f"{said}: {in_words(change)}{_controls(summary)}."


def in_words(change: Difference) -> str:
    """Return before, after and gain with its interval: accuracy in per cent and points, the reward in its own unit."""
    metric = change.metric
    return (
        f"{metric} {level(change.before, metric)} -> {level(change.after, metric)} on {change.tasks} test tasks "
        f"({blocks.change(change.mean, metric)}, 95 % interval {ends(change.low, change.high, metric)})"
    )


def qualifications(change: Difference) -> list[str]:
    """Return what must be known of a difference beside its numbers: attempts without a score, and an unknown range."""
    said = []
    if change.errors and change.ci_low_errors is not None:
        said.append(
            f"In the interval {change.errors} rollouts without a score count against the trained model at its lower "
            "end, and for it at its upper one; without them it is "
            f"{ends(change.ci_low, change.ci_high, change.metric)}."
        )
    if change.without_score:
        said.append(f"{len(change.without_score)} test tasks have no score for either and are left out.")
    if change.declared is False:
        said.append(
            "The range of this score is not known, so rare large losses that did not occur may be missing in the "
            "interval."
        )
    return said


def nothing_is_full(summary: Summary) -> list[str]:
    """Return what an accuracy of 0 means where attempts earn something: it counts those whose reward is full."""
    change, reward = summary.difference, summary.final.get("test/reward")
    if change is None or change.metric != "accuracy" or change.after > 0 or reward is None or reward <= 0:
        return []
    mean = level(reward, "reward")
    return [
        f"Accuracy counts attempts whose reward is full, and none was, although the mean reward is {mean}: if right "
        " answers earn less, say from which total on an attempt counts as solved (`reward.full`)."
    ]


def _controls(summary: Summary) -> str:
    """Return that no control does as well, or that this is unknown; nothing where a caution says which one does."""
    scored = {name: change for name, change in summary.difference_controls.items() if change is not None}
    if any(not change.is_above_zero for change in scored.values()):
        return ""
    reached = {name: f"{label_of(summary, name)} ({level(each.before, each.metric)})" for name, each in scored.items()}
    others = {name: change.before for name, change in scored.items() if name != "constant"}
    if others:
        best = max(others, key=others.__getitem__)
        return f"; no control does as well (the best of {len(scored)} is {reached[best]})"
    if scored:
        return f"; no control but the {reached['constant']} was run, so {_UNKNOWN}"
    return f"; no control was run, so {_UNKNOWN}"
