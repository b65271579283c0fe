"""Tensors from rollouts, and parts that fit a budget."""

from itertools import pairwise

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlft.training.batching import make_batch, split_by_tokens
from tests.factories import make_rollout


@given(st.lists(st.integers(1, 40), max_size=40), st.integers(1, 200))
def test_split_covers_every_row_once_within_the_budget(lengths, budget):
    parts = list(split_by_tokens(lengths, budget))
    assert sorted(i for part in parts for i in part) == list(range(len(lengths)))
    for part in parts:
        assert len(part) == 1 or len(part) * max(lengths[i] for i in part) <= budget


@given(st.lists(st.integers(1, 40), min_size=2, max_size=40), st.integers(1, 200))
def test_split_makes_no_part_that_would_have_fitted_into_the_one_before(lengths, budget):
    parts = list(split_by_tokens(lengths, budget))
    for before, after in pairwise(parts):
        assert (len(before) + 1) * lengths[after[0]] > budget


def test_split_by_value():
    # sorted lengths 1, 2, 3, 9: 3 rows of 3 fill 9 tokens, the row of 9 is alone, in any budget
    assert list(split_by_tokens([9, 2, 1, 3], 9)) == [[2, 1, 3], [0]]
    assert list(split_by_tokens([9, 2, 1, 3], 1)) == [[2], [1], [3], [0]]
    assert list(split_by_tokens([], 5)) == []


def test_batch_by_value():
    short = make_rollout(prompt=[7], completion=[8, 1], logprobs=[-0.5, -0.25])
    long = make_rollout(prompt=[3, 4, 5], completion=[6], logprobs=[-2.0])
    batch = make_batch([short, long], [1.5, -0.5], torch.device("cpu"))
    assert batch.token_ids.tolist() == [[7, 8, 1, 0], [3, 4, 5, 6]]
    assert batch.attention.tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert batch.mask.tolist() == [[0, 1, 1, 0], [0, 0, 0, 1]]
    assert batch.logprobs.tolist() == [[0, -0.5, -0.25, 0], [0, 0, 0, -2]]
    assert batch.advantages.tolist() == [1.5, -0.5]
    assert batch.first_sampled == 1


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=8), st.randoms())
def test_nothing_is_lost_in_a_batch(shapes, random):
    rollouts = [
        make_rollout(
            prompt=[random.randrange(3, 9) for _ in range(p)],
            completion=[random.randrange(3, 9) for _ in range(c)],
            loss_mask=np.asarray([False] * p + [random.random() < 0.7 for _ in range(c - 1)] + [True]),
        )
        for p, c in shapes
    ]
    batch = make_batch(rollouts, [0.0] * len(rollouts), torch.device("cpu"))
    for row, rollout in enumerate(rollouts):
        length = len(rollout.token_ids)
        assert batch.token_ids[row, :length].tolist() == rollout.token_ids.tolist()
        assert batch.mask[row, :length].bool().tolist() == rollout.loss_mask.tolist()
        assert not batch.mask[row, length:].any()
        assert int(batch.attention[row].sum()) == length
    assert batch.first_sampled == min(int(r.loss_mask.argmax()) for r in rollouts)
