"""The sentence that heads what came of a run: its outcome, the numbers, and what controls say of them."""

from __future__ import annotations

from collections.abc import Mapping

from mlops.summary.controls import label_of
from mlops.summary.sections import Difference
from mlops.summary.summary import Status, Summary

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
    """Return the outcome in one sentence, with the gain and whether a control does as well if it was measured."""
    said, change = OUTCOMES[summary.status], summary.difference
    if change is None or summary.status not in ("improved", "not_improved"):
        return f"{said}."
    if change.is_below_zero:
        said = WORSE
    elif summary.best_round == 0 and change.before == change.after:
        said = UNCHANGED
    return f"{said}: {in_words(change)}; {_controls(summary)}."


def in_words(change: Difference) -> str:
    """Return before, after and gain with its interval: accuracy in per cent and points, the reward in its own unit."""
    scale, unit = scale_of(change.metric)
    low, high = change.low * scale, change.high * scale
    before, after = (_written(value, change.metric) for value in (change.before, change.after))
    return (
        f"{change.metric} {before} -> {after} on {change.tasks} unseen test "
        f"tasks ({change.mean * scale:+.3g}{unit}, 95 % interval {low:+.3g} to {high:+.3g})"
    )


def qualifications(change: Difference) -> list[str]:
    """Return what must be known of a difference beside its numbers: attempts without a score, and an unknown range."""
    scale, _ = scale_of(change.metric)
    said = []
    if change.errors and change.ci_low_errors is not None:
        said.append(
            f"In the interval {change.errors} rollouts without a score count against the trained model at its lower "
            "end, and for it at its upper one; without them it is "
            f"{change.ci_low * scale:+.3g} to {change.ci_high * scale:+.3g}."
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
    return [
        f"Accuracy counts attempts whose reward is full, and none was, although the mean reward is {reward:.3g}: if "
        "right answers earn less, say from which total on an attempt counts as solved (`reward.full`)."
    ]


def scale_of(metric: str) -> tuple[float, str]:
    """Return by what a metric is multiplied to be printed, and the unit of a difference: the reward has its own."""
    return (1, "") if metric == "reward" else (100, " points")


def _controls(summary: Summary) -> str:
    """Return whether a control does as well, or better; that it is unknown where none but the constant answer was run.

    An older summary has the SFT control alone, under a name of its own.
    """
    given = summary.difference_controls or {"sft": summary.difference_sft_control}
    scored = {name: change for name, change in given.items() if change is not None}
    better = [label_of(summary, name) for name, change in scored.items() if change.is_below_zero]
    as_good = [
        label_of(summary, name)
        for name, change in scored.items()
        if not change.is_above_zero and not change.is_below_zero
    ]
    if better or as_good:
        return " and ".join([*_doing(better, "better"), *_doing(as_good, "as well")])
    others = {name: change.before for name, change in scored.items() if name != "constant"}
    if others:
        best = max(others, key=others.__getitem__)
        reached = _written(scored[best].before, scored[best].metric)
        return f"no control does as well (the best of {len(scored)}, {label_of(summary, best)}, reaches {reached})"
    if "constant" in scored:
        constant = scored["constant"]
        reached = _written(constant.before, constant.metric)
        return f"no control but the best constant answer ({reached}) was run, so {_UNKNOWN}"
    return f"no control was run, so {_UNKNOWN}"


def _doing(labels: list[str], how: str) -> list[str]:
    if not labels:
        return []
    return [f"{'a control does' if len(labels) == 1 else f'{len(labels)} controls do'} {how} ({', '.join(labels)})"]


def _written(value: float, metric: str) -> str:
    """Return a value of a metric as it is read: an accuracy in per cent, the reward as it is."""
    return f"{value:.3g}" if metric == "reward" else f"{value * 100:.3g} %"
