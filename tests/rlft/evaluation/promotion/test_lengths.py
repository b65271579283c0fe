import numpy as np
import pytest

from rlft.evaluation.promotion.rules import compare_lengths
from rlft.types import EvaluationReport


def report(lengths, *, failed=(), groups=None, longest=0.0):
    names = {f"t{i:03d}": float(length) for i, length in enumerate(lengths)}
    errors = {f"t{i:03d}": 1 for i in failed}
    kept = {name: length for name, length in names.items() if name not in errors}
    return EvaluationReport(
        "gate",
        "p",
        1,
        {},
        {"accuracy": {}},
        len(errors),
        groups=groups or {},
        errors=errors,
        lengths=kept,
        longest=longest,
    )


ALTERNATING = [100, 200] * 100


def test_a_ratio_is_that_of_the_means_with_its_bound():
    found = compare_lengths(report([1.5 * each for each in ALTERNATING]), report(ALTERNATING), 2.0, where="gate")
    assert (found.ours, found.theirs, found.ratio, found.tasks) == (225.0, 150.0, 1.5, 200)
    assert found.holds
    assert 1.5 < found.high < 1.75
    # Just above the bound it holds, and just below it does not.
    for most, holds in ((found.high + 0.001, True), (found.high - 0.001, False), (1.5, False)):
        assert (
            compare_lengths(report([1.5 * each for each in ALTERNATING]), report(ALTERNATING), most, where="gate").holds
            is holds
        )


@pytest.mark.parametrize("side", [0, 1])
def test_errors_count_against_ours(side):
    # Ten of ours as the longest, 200 tokens, instead of 100 or 200; or ten of theirs as none.
    sides = [report(ALTERNATING, failed=range(10) if side == at else ()) for at in (0, 1)]
    found = compare_lengths(*sides, 1.3, where="gate")
    assert found.errors == 10
    assert found.ratio > 1
    assert found.ours == (150 + 5 * 100 / 200 if side == 0 else 150)
    assert found.theirs == (150 - 10 * 150 / 200 if side == 1 else 150)


def test_the_longest_is_that_of_an_attempt_and_not_of_a_mean_over_attempts():
    # Two attempts of 100 and 500 at each of 200 tasks have the mean 300, and 10 errors of ours count as 500.
    ours = report([300] * 200, failed=range(10), longest=500.0)
    found = compare_lengths(ours, report([300] * 200), 1.5, where="gate")
    assert found.ours == (190 * 300 + 10 * 500) / 200
    # So does the bound know that 500 is possible, of which groups are imagined: the bound is further away.
    bounds = [compare_lengths(report([300] * 200, longest=most), report([300] * 200), 1.5, where="gate").high
              for most in (300.0, 500.0)]  # fmt: skip
    assert bounds[0] < bounds[1]
    assert bounds[1] == compare_lengths(report([300] * 200), report([300] * 200, longest=500.0), 1.5, where="gate").high


def test_few_groups_and_no_lengths_show_nothing():
    groups = {f"t{i:03d}": str(i % 19) for i in range(200)}
    few = compare_lengths(report([1] * 200, groups=groups), report(ALTERNATING, groups=groups), 5.0, where="gate")
    assert not few.holds
    assert few.obstacle.startswith("gate has 19 groups of tasks")
    assert compare_lengths(report([]), report([]), 5.0, where="gate") is None
    empty = compare_lengths(report([5] * 30), report([0] * 30), 5.0, where="gate")
    assert (empty.high, empty.holds, empty.ratio) == (None, False, float("inf"))


@pytest.mark.slow
def test_a_ratio_that_is_the_bound_is_rarely_shown_to_be_within_it():
    # 400 draws of 60 tasks whose lengths have a mean of 1.2 times the other's: a share of 0.025 or less has a standard
    # error of at most 0.008.
    generator = np.random.default_rng(0)
    passed = 0
    for _ in range(400):
        theirs = 100 * np.exp(0.5 * generator.standard_normal(60))
        ours = 1.2 * theirs * np.exp(0.5 * generator.standard_normal(60) - 0.125)
        passed += compare_lengths(report(ours), report(theirs), 1.2, where="gate").holds
    assert passed / 400 <= 0.05
