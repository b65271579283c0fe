import itertools
from statistics import fmean

import numpy as np
import pytest

from rlft import statistics
from rlft.statistics import bootstrap_interval, common_tasks, paired_difference
from rlft.types import Interval


def test_interval_matches_the_exact_bootstrap_distribution():
    # All 4^4 = 256 resamples of (0, 0, 1, 3) are equally likely, so the percentiles of their means are known.
    values = [0.0, 0.0, 1.0, 3.0]
    means = [fmean(draw) for draw in itertools.product(values, repeat=4)]
    low, high = np.percentile(means, [2.5, 97.5])
    interval = bootstrap_interval(values, resamples=20_000, seed=0)
    assert interval.mean == 1.0
    assert interval.count == 4
    # Means move in steps of 1/4; 20,000 draws hit the right step.
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-9)


def test_wide_data_follows_the_normal_approximation():
    # 400 tasks, half solved: standard error sqrt(0.25 / 400) = 0.025, so 0.5 -+ 1.96 * 0.025 = 0.451 to 0.549.
    interval = bootstrap_interval([0.0, 1.0] * 200, resamples=10_000, seed=1)
    assert interval.low == pytest.approx(0.451, abs=0.004)
    assert interval.high == pytest.approx(0.549, abs=0.004)


def test_less_confidence_gives_a_narrower_interval():
    # 90 %: 1.645 * 0.025 = 0.041 each way.
    interval = bootstrap_interval([0.0, 1.0] * 200, resamples=10_000, seed=1, confidence=0.9)
    assert interval.high - interval.low == pytest.approx(2 * 0.041, abs=0.006)


def test_the_seed_decides_the_interval():
    values = list(np.linspace(0, 1, 30) ** 2)
    first, again, other = (bootstrap_interval(values, resamples=500, seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert first != other


@pytest.mark.parametrize("values", [[0.1], [0.1] * 7])
def test_equal_values_are_exact(values):
    # The mean of seven times 0.1 in floating point is not 0.1; the interval is.
    assert bootstrap_interval(values, resamples=100, seed=0) == Interval(0.1, 0.1, 0.1, len(values))


@pytest.mark.parametrize("values", [[], [0.0, float("nan")], [float("inf"), 1.0]])
def test_nothing_or_not_finite_raises(values):
    with pytest.raises(ValueError, match=r"at least one value|not finite"):
        bootstrap_interval(values, resamples=100, seed=0)


def test_batches_bound_the_memory(monkeypatch):
    # One statistic call may see at most VALUES_AT_ONCE numbers: 10,000 resamples of 10,000 tasks would be 800 MB.
    seen = []
    monkeypatch.setattr(statistics, "VALUES_AT_ONCE", 1000)
    real = np.mean
    monkeypatch.setattr(statistics.np, "mean", lambda a, axis=None: seen.append(np.size(a)) or real(a, axis=axis))
    bootstrap_interval([float(i) for i in range(100)], resamples=200, seed=0)
    assert max(seen) == 1000


def test_pairing_removes_what_both_share():
    # b is a minus 0.1 everywhere: each resample has the same difference, however far apart the tasks are.
    a = {f"t{i}": float(i) for i in range(20)}
    b = {task: score - 0.5 for task, score in reversed(a.items())}
    assert paired_difference(a, b, resamples=200, seed=0) == Interval(0.5, 0.5, 0.5, 20)


def test_difference_has_the_sign_of_a_minus_b():
    # Differences (1, 1, 1, 0): mean 3/4. A resample has mean 1 with (3/4)^4 = 32 %, so the upper bound is 1.
    interval = paired_difference(
        {"w": 1.0, "x": 1.0, "y": 1.0, "z": 0.0}, dict.fromkeys("wxyz", 0.0), resamples=2000, seed=0
    )
    assert interval.mean == 0.75
    assert interval.high == 1.0


def test_other_tasks_are_named():
    a = {f"t{i}": 0.0 for i in range(6)}
    with pytest.raises(ValueError, match=r"5 missing in the second: t1, t2, t3, \.\.\.; 1 missing in the first: u"):
        paired_difference(a, {"t0": 0.0, "u": 1.0}, resamples=100, seed=0)


def test_only_tasks_that_both_have_are_compared():
    assert common_tasks({"b": 1.0, "a": 2.0, "c": 3.0}, {"a": 4.0, "b": 5.0, "d": 6.0}) == (
        {"a": 2.0, "b": 1.0},
        {"a": 4.0, "b": 5.0},
    )
