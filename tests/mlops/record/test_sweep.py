"""mlops.record.sweep: what stands in MLflow and in the summary of a sweep."""

from __future__ import annotations

import pytest

from mlops.record.sweep import SweptRun, _metrics, _settings, result_of, table_of
from mlops.summary.sections import Difference
from mlops.summary.summary import Summary

LONG = "Think step by step, and write the answer between tags: "


def run(changes, after, **errors):
    """A run that ended well, with a gain over 0.25 whose interval over tasks is 0.1 to either side."""
    gain = after - 0.25
    change = Difference(
        metric="accuracy",
        before=0.25,
        after=after,
        mean=gain,
        ci_low=gain - 0.1,
        ci_high=gain + 0.1,
        tasks=40,
        **errors,
    )
    return SweptRun("r", changes, 0, Summary(status="improved", difference=change))


def test_a_run_has_the_interval_of_its_gain_with_errors_on_either_side():
    worse = run({}, 0.5, errors=2, ci_low_errors=0.05, ci_high_errors=0.4).score
    assert worse is not None
    assert (worse.gain_low, worse.gain_high) == (0.05, 0.4)
    (listed, failed) = result_of([run({}, 0.5), SweptRun("f", {}, 1, None)])["runs"]
    assert (listed["gain_low"], listed["gain_high"]) == pytest.approx((0.15, 0.35))
    assert {name: failed[name] for name in ("metric", "before", "after", "gain_low", "gain_high")} == dict.fromkeys(
        ("metric", "before", "after", "gain_low", "gain_high")
    )


def test_settings_whose_names_are_cut_off_keep_their_own_metrics_and_rows():
    runs = [
        run({"environment.system_prompt": LONG + end, "seed": "0"}, after) for end, after in (("A", 0.5), ("B", 1.0))
    ]
    found = _metrics(_settings(runs))
    assert sorted(value for name, value in found.items() if name.startswith("0_result/test/accuracy/")) == [0.5, 1.0]
    first, second = table_of(runs).rows
    assert first[0] != second[0]
