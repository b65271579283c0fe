"""Advantages by value."""

import math
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.evaluation.statistics import varies
from rlft.training.advantage import (
    Baseline,
    Scale,
    count_turns,
    group_advantages,
    spread,
    turn_advantages,
    turn_of_tokens,
)
from tests.factories import make_rollout

SCALES = get_args(Scale)
BASELINES = get_args(Baseline)


def advantages(rewards, groups, *modes):
    return group_advantages(torch.tensor(rewards, dtype=torch.float64), torch.tensor(groups), *modes).tolist()


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


@pytest.mark.parametrize(
    ("rewards", "groups", "expected"),
    [
        # the mean of the others is 0 for the first, 1/3 for the rest
        ([1, 0, 0, 0], [0] * 4, [1, -1 / 3, -1 / 3, -1 / 3]),
        # 1 - 2.5, 2 - 2, 3 - 1.5 and, in a group of two, the differences
        ([1, 5, 2, 3, 1], [0, 1, 0, 0, 1], [-1.5, 4, 0, 1.5, -4]),
    ],
)
def test_leave_one_out_is_the_distance_to_the_mean_of_the_others(rewards, groups, expected):
    assert advantages(rewards, groups, "none", "leave_one_out") == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("scale", ["group", "batch"])
def test_leave_one_out_divided_by_a_deviation(scale):
    # deviation 0.5 as above: 1 / 0.5 and -1/3 / 0.5
    found = advantages([1, 0, 0, 0], [0, 0, 0, 0], scale, "leave_one_out")
    assert found == pytest.approx([1 / 0.5001, *[-1 / 3 / 0.5001] * 3], abs=1e-12)


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("scale", SCALES)
def test_float_noise_is_exactly_zero(scale, baseline):
    # 0.1 + 0.2 is 0.30000000000000004: divided by its own deviation the noise would become +-0.7
    assert advantages([0.1 + 0.2, 0.3, 0.3, 1.0, 0.0], [0, 0, 0, 1, 1], scale, baseline)[:3] == [0, 0, 0]
    assert all(advantages([0.1 + 0.2, 0.3, 0.3, 1.0, 0.0], [0, 0, 0, 1, 1], scale, baseline)[3:])


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, 1e-30, -3.3, 1e30])
def test_equal_rewards_are_exactly_zero(value, baseline):
    for scale in SCALES:
        assert advantages([value] * 5, [0] * 5, scale, baseline) == [0] * 5


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("scale", SCALES)
def test_a_group_of_one_is_zero_and_no_nan(scale, baseline):
    assert advantages([5.0], [0], scale, baseline) == [0]
    assert advantages([5.0, 1.0, 0.0], [0, 1, 1], scale, baseline)[0] == 0


@pytest.mark.parametrize(("rewards", "expected"), [([0.0, 1.0], True), ([0.0, 1e-9], True), ([1.0, 1 + 1e-9], False)])
def test_varies_is_relative_to_the_size_of_the_rewards(rewards, expected):
    assert varies(rewards) is expected


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(0, 4)), min_size=1, max_size=24),
    st.sampled_from(SCALES),
    st.sampled_from(BASELINES),
)
def test_every_group_sums_to_zero_and_keeps_its_order(pairs, scale, baseline):
    rewards, groups = [r for r, _ in pairs], [g for _, g in pairs]
    found = advantages(rewards, groups, scale, baseline)
    for group in set(groups):
        rows = [i for i, g in enumerate(groups) if g == group]
        assert sum(found[i] for i in rows) == pytest.approx(0, abs=1e-9)
        for i in rows:
            for j in rows:
                assert (rewards[i] < rewards[j]) == (found[i] < found[j])


@settings(deadline=None)
@given(
    st.floats(-1e6, 1e6),
    st.lists(st.integers(-3, 3), min_size=1, max_size=8),
    st.sampled_from(SCALES),
    st.sampled_from(BASELINES),
)
def test_rewards_some_rounding_apart_are_exactly_zero(value, steps, scale, baseline):
    noisy = [value * (1 + step * 2**-52) for step in steps]  # a second group varies, so that a batch has a deviation
    found = advantages([*noisy, 0.0, 1.0], [0] * len(noisy) + [1, 1], scale, baseline)
    assert found[:-2] == [0] * len(noisy)
    assert found[-2] == -found[-1] < 0


@settings(deadline=None)
@given(st.lists(st.floats(-10, 10), min_size=2, max_size=9))
def test_leave_one_out_compares_with_the_others_only(rewards):
    found = advantages(rewards, [0] * len(rewards), "none", "leave_one_out")
    for i, reward in enumerate(rewards):
        others = rewards[:i] + rewards[i + 1 :]
        expected = reward - sum(others) / len(others) if varies(rewards) else 0
        assert found[i] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("rewards", "groups", "modes", "match"),
    [
        ([1.0, 2.0], [0], (), "must both be"),
        ([[1.0, 2.0]], [[0, 0]], (), "must both be"),
        ([1.0, math.nan], [0, 0], (), "finite"),
        ([1.0, math.inf], [0, 0], (), "finite"),
    ],
)
def test_what_is_wrong_is_said(rewards, groups, modes, match):
    with pytest.raises(ValueError, match=match):
        advantages(rewards, groups, *modes)


def test_a_turn_is_credited_with_what_came_of_it():
    # All turns of the group: 1, 0, 0, 1. Mean 0.5, deviation sqrt(4 * 0.25 / 3) = 0.5774. The first attempt has +0.5
    # and then -0.5 to come: 0 and -0.5; the second -0.5 and +0.5 to come: 0 and +0.5. Each divided by 0.5775.
    found = turn_advantages([[[1.0, 0.0], [0.0, 1.0]]])
    assert found == [[pytest.approx([0, -0.5 / 0.57745], abs=1e-4), pytest.approx([0, 0.5 / 0.57745], abs=1e-4)]]


def test_attempts_may_differ_in_turns_and_a_turn_without_a_score_adds_nothing():
    # Scores 3, 0, 0: mean 1. To go: 2 + 0 - 1 = 1, then -1, then -1; and -1.
    assert turn_advantages([[[3.0, None, 0.0], [0.0]]], "none") == [[[1.0, -1.0, -1.0], [-1.0]]]


def test_a_batch_has_one_deviation():
    # 0, 2, 0, 4: mean 1.5, squares 2.25 + 0.25 + 2.25 + 6.25 = 11, / 3, root 1.9149
    found = turn_advantages([[[0.0], [2.0]], [[0.0], [4.0]]], "batch")
    assert [each for group in found for (each,) in group] == pytest.approx(
        [-1 / 1.9150, 1 / 1.9150, -2 / 1.9150, 2 / 1.9150], abs=1e-4
    )


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_equal_scores_add_exact_zeros(scale):
    groups = [[[0.1 + 0.2, 0.3], [0.3]], [[1.0], [0.0]], [[], [None]]]
    found = turn_advantages(groups, scale)
    assert found[0] == [[0.0, 0.0], [0.0]]
    assert found[2] == [[], [0.0]]
    assert found[1][0][0] == -found[1][1][0] > 0


def make_turns(*turns):
    """A rollout of a prompt of two tokens and turns of so many sampled tokens, each but the last with two to read."""
    mask = [False, False]
    for number, length in enumerate(turns):
        mask += [True] * length + [False, False] * (number + 1 < len(turns))
    return make_rollout(prompt=[1, 2], completion=[3] * (len(mask) - 2), loss_mask=np.array(mask))


def test_each_sampled_token_has_the_advantage_of_its_attempt_and_of_its_turn():
    rollout = make_turns(2, 1)
    assert turn_of_tokens(rollout).tolist() == [0, 0, -1, -1, 1]
    assert spread(rollout, 0.5, [1.0, -2.0]).tolist() == [1.5, 1.5, 0, 0, -1.5]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.data())
def test_turns_are_found_by_what_was_read_between_them(lengths, data):
    rollout = make_turns(*lengths)
    turns = [data.draw(st.floats(-3, 3)) for _ in lengths]
    assert count_turns(rollout) == len(lengths)
    found = spread(rollout, 0.25, turns)[rollout.loss_mask[2:]]
    assert found.tolist() == [0.25 + turn for turn, length in zip(turns, lengths, strict=True) for _ in range(length)]
    unsampled = spread(rollout, 0.25, turns)[~rollout.loss_mask[2:]]
    assert unsampled.tolist() == [0.0] * len(unsampled)


def test_a_rollout_without_a_token_has_no_turn():
    empty = make_rollout(prompt=[1, 2], completion=[], loss_mask=np.zeros(2, dtype=bool))
    assert count_turns(empty) == 0
    assert spread(empty, 1.0, []).shape == (0,)
    assert torch.as_tensor(spread(empty, 1.0, [])).dtype == torch.float64
