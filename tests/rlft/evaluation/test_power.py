from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from rlft.evaluation.power import (
    DISCORDANCE,
    gate_sentence,
    smallest_difference,
    smallest_gain,
    squared_difference,
)
from rlft.evaluation.statistics import IMAGINED_OF_DIFFERENCE, SHARE, Range, bounds
from rlft.types import EvaluationReport

REPORT = EvaluationReport("gate", "policy", 1, metrics={}, per_task={}, errored=0, frac_tasks_with_variance=0.0)


@pytest.mark.parametrize(("groups", "confidence"), [(500, 0.95), (2000, 0.95), (2000, 0.995)])
def test_with_many_groups_it_is_the_textbooks_formula(groups, confidence):
    # (z of the level + z of the power) * sqrt(discordance / groups): (1.960 + 0.842) * sqrt(0.3 / 2000) = 0.0343.
    textbook = (norm.ppf((1 + confidence) / 2) + norm.ppf(0.8)) * np.sqrt(DISCORDANCE / groups)
    assert smallest_gain(groups, confidence=confidence) == pytest.approx(textbook, rel=0.04)


@pytest.mark.parametrize(("groups", "confidence"), [(30, 0.95), (200, 0.95), (200, 0.995)])
def test_the_gain_is_found_about_four_times_out_of_five(groups, confidence):
    gain = smallest_gain(groups, confidence=confidence)
    assert gain is not None
    differing = max(DISCORDANCE, gain)
    chances = [(differing + gain) / 2, (differing - gain) / 2, 1 - differing]
    drawn = np.random.default_rng(0).choice([1.0, -1.0, 0.0], size=(4000, groups), p=chances)
    low, _ = bounds(
        drawn, np.ones_like(drawn), SHARE.minus(SHARE), imagined=IMAGINED_OF_DIFFERENCE, confidence=confidence
    )
    assert 0.75 < (low > 0).mean() < 0.9  # its standard error is 0.006


@pytest.mark.parametrize("minimum", [0.02, 0.05, 0.1])
def test_a_gain_that_must_exceed_a_minimum_is_found_as_often(minimum):
    # The 14.6 points that 200 groups find above 0 were found above 0.02, 0.05 and 0.1 in 0.59, 0.25 and 0.02 of cases.
    gain = smallest_gain(200, confidence=0.995, minimum=minimum)
    assert gain is not None
    chances = [(DISCORDANCE + gain) / 2, (DISCORDANCE - gain) / 2, 1 - DISCORDANCE]
    drawn = np.random.default_rng(0).choice([1.0, -1.0, 0.0], size=(4000, 200), p=chances)
    low, _ = bounds(drawn, np.ones_like(drawn), SHARE.minus(SHARE), imagined=IMAGINED_OF_DIFFERENCE, confidence=0.995)
    assert 0.75 < (low > minimum).mean() < 0.85  # its standard error is 0.006
    assert smallest_gain(200, minimum=0.99) is None


def test_a_gate_that_sees_nothing_says_so():
    assert smallest_gain(1) is None
    assert smallest_gain(5) is None
    assert gate_sentence(5, 5, 5.0, metric="accuracy") == "with 5 gate tasks no gain is found"


def test_the_sentence_names_one_number():
    gain = smallest_gain(200)
    assert gain is not None
    found = (
        f"with 200 gate tasks gains above about {100 * gain:.0f} points over a rival are found four times out of five"
    )
    assert gate_sentence(200, 200, 200.0, metric="accuracy") == found
    stricter = gate_sentence(200, 60, 40.0, metric="accuracy", looks=20)
    assert "with 200 gate tasks in 60 groups that count as 40 of equal size gains" in stricter
    assert stricter.endswith("at the level for 20 looks at one gate")
    # 58 tasks of which 30 % differ: what is found four times out of five at 20 looks is 29 points
    assert "gains above about 29 points" in gate_sentence(58, 58, 58.0, metric="accuracy", looks=20)


def test_the_squared_difference_of_right_and_wrong_is_the_discordance():
    ours = replace(REPORT, per_task={"accuracy": {"a": 1.0, "b": 0.0, "c": 1.0, "d": 1.0}})
    theirs = replace(REPORT, per_task={"accuracy": {"a": 0.0, "b": 1.0, "c": 1.0, "e": 0.0}})
    assert squared_difference(ours, theirs, "accuracy") == pytest.approx(2 / 3)  # a and b of a, b and c
    assert squared_difference(ours, REPORT, "accuracy") is None


def found_by_normal_rewards(gain, count, confidence=0.95, minimum=0.0, spread=0.2):
    """The share of 4000 gates that find a gain of a reward whose difference is normal; its standard error is 0.006."""
    ends = Range(-10.0, 1.0)
    drawn = np.random.default_rng(0).normal(gain, spread, (4000, count))
    low, _ = bounds(
        drawn, np.ones_like(drawn), ends.minus(ends), imagined=IMAGINED_OF_DIFFERENCE, confidence=confidence
    )
    return float((low > minimum).mean())


@pytest.mark.slow
@pytest.mark.parametrize(("count", "confidence", "minimum"), [(100, 0.95, 0.0), (200, 0.995, 0.0), (500, 0.995, 0.05)])
def test_the_gain_of_a_reward_is_found_as_often_as_is_said(count, confidence, minimum):
    # Normal theory alone, (1.960 + 0.842) * 0.2 / sqrt(100) = 0.056, is found by none of these gates: the six groups
    # that the interval imagines at -11 and at 11 widen it.
    ends = Range(-10.0, 1.0)
    gain = smallest_difference(0.04, count, "reward", ends=ends, confidence=confidence, minimum=minimum)
    assert gain is not None
    assert 0.75 < found_by_normal_rewards(gain, count, confidence, minimum) < 0.88
    assert found_by_normal_rewards(0.056, 100) == 0.0


def test_a_reward_with_a_narrow_range_needs_little_more_than_normal_theory():
    # With 1000 groups of a range of 1 the imagined ones add 12 to a sum of squares of 40: a half of the spread's 0.2.
    gain = smallest_difference(0.04, 1000, "reward", ends=Range(0.0, 1.0))
    assert gain == pytest.approx((1.962 + 0.842) * 0.2 / 1000**0.5, rel=0.15)
    assert gain > (1.962 + 0.842) * 0.2 / 1000**0.5


def test_no_power_is_said_of_a_reward_without_a_range_or_a_measured_spread():
    assert smallest_difference(0.04, 100, "reward") is None
    none = "it is not known which gains of the reward are found, as that depends on its spread"
    assert gate_sentence(100, 100, 100.0, metric="reward").endswith(none)
