"""What the controls of a run are called, and whether one of them does as well as the trained policy."""

from __future__ import annotations

from mlops.runs.summary import Difference, Summary

LABELS = {"sft": "SFT on your gold answers"}


def does_as_well(change: Difference) -> bool:
    """Return whether training is not measurably better than the control: its interval reaches down to zero."""
    low = change.ci_low if change.ci_low_errors is None else min(change.ci_low, change.ci_low_errors)
    return low <= 0


def controls_that_do(summary: Summary) -> list[str]:
    """Return a sentence for each control that does as well as the trained policy."""
    found = []
    for name, change in summary.difference_controls.items():
        if change is None or not does_as_well(change):
            continue
        reached = f"{change.before * 100:.1f} %" if change.metric == "accuracy" else f"a reward of {change.before:.3g}"
        label = LABELS.get(name, name)
        found.append(f"{label} reaches {reached}, and GRPO is not measurably better: it would do, and costs no more.")
    return found
