"""Advantages of turns by value, and where in a rollout they go."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlft.training.advantage import count_turns, spread, turn_advantages, turn_of_tokens
from tests.factories import make_rollout


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
