"""Advantages by value."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlft.statistics import varies
from rlft.training.advantage import group_advantages


def advantages(rewards, groups, scale="group"):
    return group_advantages(torch.tensor(rewards, dtype=torch.float64), torch.tensor(groups), scale).tolist()


def test_group_scale_divides_by_the_unbiased_deviation_plus_epsilon():
    # mean 0.25; deviations 0.75, -0.25 x3; squares 0.5625 + 3 * 0.0625 = 0.75, divided by n-1 = 3 -> 0.25; root 0.5
    assert advantages([1, 0, 0, 0], [0, 0, 0, 0]) == pytest.approx([0.75 / 0.5001, *[-0.25 / 0.5001] * 3], abs=1e-12)


def test_no_scale_only_centres():
    assert advantages([1, 0, 0, 0], [0, 0, 0, 0], "none") == [0.75, -0.25, -0.25, -0.25]


def test_batch_scale_takes_the_deviation_over_all_groups():
    # rewards 0, 1, 2, 4: mean 1.75; squares 3.0625 + 0.5625 + 0.0625 + 5.0625 = 8.75; / 3; group means 0.5 and 3
    deviation = math.sqrt(8.75 / 3) + 1e-4
    expected = [value / deviation for value in (-0.5, 0.5, -1, 1)]
    assert advantages([0, 1, 2, 4], [0, 0, 1, 1], "batch") == pytest.approx(expected, abs=1e-12)


def test_ragged_and_interleaved_groups_each_use_their_own_mean():
    # group 7: rewards 1, 0 -> mean 0.5, deviation sqrt(0.5); group 2: rewards 3, 0, 0 -> mean 1, deviation sqrt(3)
    two, three = math.sqrt(0.5) + 1e-4, math.sqrt(3) + 1e-4
    found = advantages([3, 1, 0, 0, 0], [2, 7, 2, 7, 2])
    assert found == pytest.approx([2 / three, 0.5 / two, -1 / three, -0.5 / two, -1 / three], abs=1e-12)


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_float_noise_is_exactly_zero(scale):
    # 0.1 + 0.2 is 0.30000000000000004: divided by its own deviation the noise would become +-0.7
    assert advantages([0.1 + 0.2, 0.3, 0.3, 1.0, 0.0], [0, 0, 0, 1, 1], scale)[:3] == [0, 0, 0]


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, 1e-30, -3.3, 1e30])
def test_equal_rewards_are_exactly_zero(value):
    assert advantages([value] * 5, [0] * 5) == [0] * 5


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_a_group_of_one_is_zero_and_no_nan(scale):
    assert advantages([5.0], [0], scale) == [0]
    assert advantages([5.0, 1.0, 0.0], [0, 1, 1], scale)[0] == 0


@pytest.mark.parametrize(("rewards", "expected"), [([0.0, 1.0], True), ([0.0, 1e-9], True), ([1.0, 1 + 1e-9], False)])
def test_varies_is_relative_to_the_size_of_the_rewards(rewards, expected):
    assert varies(rewards) is expected


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(0, 4)), min_size=1, max_size=24),
    st.sampled_from(["group", "batch", "none"]),
)
def test_every_group_sums_to_zero_and_keeps_its_order(pairs, scale):
    rewards, groups = [r for r, _ in pairs], [g for _, g in pairs]
    found = advantages(rewards, groups, scale)
    for group in set(groups):
        rows = [i for i, g in enumerate(groups) if g == group]
        assert sum(found[i] for i in rows) == pytest.approx(0, abs=1e-9)
        for i in rows:
            for j in rows:
                assert (rewards[i] < rewards[j]) == (found[i] < found[j])
