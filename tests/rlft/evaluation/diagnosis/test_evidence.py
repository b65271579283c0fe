import math
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from rlft.evaluation.diagnosis.history import LEVEL, LEVEL_OF_BOUND, enough_to_see, falls, largest_rise, passes, rises


@pytest.mark.parametrize("bound", [0.1, 0.4, 0.5, 0.8])
@pytest.mark.parametrize("groups", [1, 4, 20, 21, 100, 400])
def test_a_share_at_its_bound_is_accused_by_chance_in_one_of_a_hundred_at_most(bound, groups):
    accused = [count for count in range(groups + 1) if passes(count / groups, bound, groups)]
    assert sum(binom.pmf(accused, groups, bound)) <= LEVEL + 1e-12


def test_a_share_that_is_far_above_its_bound_is_accused():
    assert not passes(1.0, 0.8, 20)  # 0.8^20 = 0.0115
    assert passes(1.0, 0.8, 21)  # 0.8^21 = 0.0092
    assert not passes(0.79, 0.8, 1e6)
    assert passes(0.82, 0.8, 1e4)
    assert not passes(1.0, 0.8, 0)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_of_all_orders_of_different_numbers_one_of_a_hundred_at_most_rises(count):
    orders = list(permutations(range(count)))
    found = sum(rises([float(each) for each in order]) for order in orders)
    assert found / len(orders) <= LEVEL
    assert (found > 0) == (count >= 5)  # 1 / 4! = 0.042, 1 / 5! = 0.0083


def test_of_all_orders_of_equal_numbers_one_of_a_hundred_at_most_rises():
    for values in ([0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 0, 1], [0, 1, 2, 3, 4, 4]):
        orders = list(permutations(map(float, values)))
        assert sum(map(rises, orders)) / len(orders) <= LEVEL
    assert not any(map(rises, product((0.0, 1.0), repeat=5)))


def test_long_curves_of_noise_with_equal_numbers_seldom_rise():
    random = np.random.default_rng(0)
    found = [rises(list(random.integers(0, levels, 24).astype(float))) for levels in (2, 3, 9) for _ in range(300)]
    # 9 of 900 are expected at LEVEL, three standard deviations are 9.
    assert sum(found) <= 18


@given(st.lists(st.floats(allow_nan=True), max_size=4))
def test_fewer_than_five_rounds_never_rise_or_fall(curve):
    assert not rises(curve)
    assert not falls(curve)


def test_a_rise_that_ends_is_a_rise():
    assert rises([0.1, 0.2, 0.4, 0.6, 0.8, *[1.0] * 15])
    assert falls([3.0, 1.0, 0.3, 0.1, 0.02, 0.01])
    assert not rises([1.0] * 30)


def test_the_largest_rise_by_value():
    assert largest_rise([0.0, 1.0, 2.0]) == math.inf
    assert largest_rise([0.0, 1.0, 2.0, 3.0]) == pytest.approx(3.0)  # a line, and nothing left of it
    # Slope 0.4 and residuals 0.4, -0.2, -0.8, 0.6: squares 1.2 over 2 degrees of freedom and 5, the sum of the squares
    # of -1.5, -0.5, 0.5 and 1.5, so the error is sqrt(0.12) = 0.3464. t of 0.95 with 2 is 2.920: 3 * (0.4 + 1.0115).
    assert largest_rise([1.0, 0.8, 0.6, 2.4]) == pytest.approx(4.2345, abs=1e-3)


def test_a_true_rise_lies_above_its_bound_as_seldom_as_is_said():
    random = np.random.default_rng(1)
    curves = np.linspace(0, 1, 8) + random.normal(0, 0.3, (2000, 8))
    low = np.mean([largest_rise(list(curve)) < 1 for curve in curves])
    assert abs(low - LEVEL_OF_BOUND) < 0.015  # three standard deviations: 3 * sqrt(0.05 * 0.95 / 2000)


def test_enough_groups_to_see_what_one_in_twenty_has():
    assert enough_to_see(0.05) == 90  # 0.95^90 = 0.0099
