"""The sentence that heads a result says its numbers and what controls say of them."""

from __future__ import annotations

import pytest

from mlops.summary.summary import Difference, Summary
from mlops.summary.verdict import headline


def minus(before, low, high, metric="accuracy", **more):
    """0.5 minus a control, or minus the start."""
    change = {"before": before, "after": 0.5, "mean": 0.5 - before, "ci_low": low, "ci_high": high}
    return Difference(metric=metric, tasks=40, **change, **more)


GAIN = minus(0.25, 0.125, 0.375)
ABOVE, LEVEL, BELOW = minus(0.25, 0.1, 0.4), minus(0.5, -0.1, 0.1), minus(0.75, -0.4, -0.1)
NUMBERS = "accuracy 25.0 % -> 50.0 % on 40 test tasks (+25.0 points, 95 % interval +12.5 to +37.5)"
UNKNOWN = "so whether something simpler does as well is unknown"


@pytest.mark.parametrize(
    ("controls", "said"),
    [
        ({}, f"no control was run, {UNKNOWN}"),
        ({"sft": None}, f"no control was run, {UNKNOWN}"),  # it has no score
        ({"constant": ABOVE}, f"no control but the best constant answer (25.0 %) was run, {UNKNOWN}"),
        (
            {"constant": minus(0.3, 0.1, 0.4), "sft": ABOVE, "few_shot": minus(0.2, 0.1, 0.4)},
            "no control does as well (the best of 3 is SFT on your gold answers (25.0 %))",
        ),
    ],
)
def test_the_headline_says_what_controls_say(controls, said):
    summary = Summary(status="improved", difference=GAIN, difference_controls=controls)
    assert headline(summary) == f"The trained model is better than what it started from: {NUMBERS}; {said}."


@pytest.mark.parametrize("change", [LEVEL, BELOW])
def test_a_control_that_a_caution_names_is_not_named_again(change):
    summary = Summary(status="improved", difference=GAIN, difference_controls={"sft": change, "constant": ABOVE})
    assert headline(summary) == f"The trained model is better than what it started from: {NUMBERS}."


def test_a_run_that_kept_its_start_says_so():
    level = minus(0.5, 0.0, 0.0)
    kept = Summary(status="not_improved", difference=level, best_round=0)
    assert headline(kept).startswith(
        "In validation no round did better than what training started from, which is what was kept and tested: "
        "accuracy 50.0 % -> 50.0 % on"
    )
    trained = Summary(status="not_improved", difference=level, best_round=3)
    assert headline(trained).startswith("The trained model is not measurably better")


def test_a_model_that_became_worse_is_said_to_be_worse():
    worse = Summary(status="not_improved", difference=minus(0.75, -0.375, -0.125))
    assert headline(worse).startswith(
        "The trained model is measurably worse than what it started from: accuracy 75.0 % -> 50.0 % on 40 "
    )
    # Its attempts without a score, counted as solved, may close the gap.
    unsure = Summary(status="not_improved", difference=minus(0.75, -0.375, -0.125, errors=9, ci_high_errors=0.05))
    assert headline(unsure).startswith("The trained model is not measurably better than what it started from")


def test_a_run_that_measured_nothing_has_no_numbers():
    assert headline(Summary(status="failed")) == "The run failed."
    assert headline(Summary(status="running", difference=GAIN)) == "The run has not ended."
