"""One token a row: frequencies of the softmax, what is cut off never drawn, and the probability of what is left."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from rlft.engines.base import Sampling
from rlft.engines.transformers_engine import sample

OFF = float("-inf")
# probabilities 0.5, 0.25, 0.125, 0.0625, 0.0625 in an order of their own
PROBABILITIES = [0.125, 0.5, 0.0625, 0.25, 0.0625]
LOGITS = torch.tensor([PROBABILITIES]).log() + 3.0  # a constant changes nothing


def points(*values):
    return torch.tensor(values, dtype=torch.float64)


def drawn(logits, uniforms, temperature=1.0, **cut):
    """Tokens and probabilities for each of `uniforms`, from the same logits."""
    rows = logits.expand(len(uniforms), -1)
    tokens, logprobs = sample(rows, points(*uniforms), Sampling(temperature, 1, **cut))
    return tokens.tolist(), logprobs.exp().tolist()


def evenly(count):
    """Points that fall into every part of [0, 1) as often as it is wide."""
    return [(i + 0.5) / count for i in range(count)]


def test_by_value():
    # cumulative: 0.125, 0.625, 0.6875, 0.9375, 1
    tokens, probabilities = drawn(LOGITS, [0.0, 0.1249, 0.1251, 0.6249, 0.6251, 0.6876, 0.9374, 0.9376, 0.9999])
    assert tokens == [0, 0, 1, 1, 2, 3, 3, 4, 4]
    assert probabilities == pytest.approx([PROBABILITIES[token] for token in tokens])


def test_temperature_by_value():
    # at 1/2 probabilities are squared: 4, 64, 1, 16, 1 of 86
    tokens, probabilities = drawn(LOGITS, evenly(8600), temperature=0.5)
    assert np.bincount(tokens).tolist() == [400, 6400, 100, 1600, 100]
    assert probabilities[0] == pytest.approx(4 / 86)


def test_temperature_0_takes_the_likeliest_and_tells_its_probability_under_1():
    tokens, probabilities = drawn(LOGITS, [0.0, 0.99], temperature=0.0)
    assert tokens == [1, 1]
    assert probabilities == pytest.approx([0.5, 0.5])


CUTS = {  # what is left, with the probabilities brought to a sum of 1 again
    "top_k=2": ({"top_k": 2}, {1: 2 / 3, 3: 1 / 3}),
    "top_k=1": ({"top_k": 1}, {1: 1.0}),
    "top_k of all": ({"top_k": 5}, dict(enumerate(PROBABILITIES))),
    "top_k of more than there are": ({"top_k": 50}, dict(enumerate(PROBABILITIES))),
    "top_p: 0.5 + 0.25 is enough for 0.7": ({"top_p": 0.7}, {1: 2 / 3, 3: 1 / 3}),
    "top_p: 0.5 is not enough for 0.51": ({"top_p": 0.51}, {1: 2 / 3, 3: 1 / 3}),
    "top_p: 0.5 is enough for 0.49": ({"top_p": 0.49}, {1: 1.0}),
    "top_p=1": ({"top_p": 1.0}, dict(enumerate(PROBABILITIES))),
    "min_p: at least 0.2 of 0.5": ({"min_p": 0.2}, {0: 1 / 7, 1: 4 / 7, 3: 2 / 7}),
    "min_p: at least 0.6 of 0.5": ({"min_p": 0.6}, {1: 1.0}),
    "top_k=3, then 0.7 of what is left: 4/7 + 2/7": ({"top_k": 3, "top_p": 0.7}, {1: 2 / 3, 3: 1 / 3}),
    "top_p=0.9, then 0.3 of 0.5": ({"top_p": 0.9, "min_p": 0.3}, {1: 2 / 3, 3: 1 / 3}),
}


@pytest.mark.parametrize("name", CUTS)
def test_what_is_cut_off(name):
    cut, left = CUTS[name]
    count = 4200
    tokens, probabilities = drawn(LOGITS, evenly(count), **cut)
    assert set(tokens) == set(left)
    for token, probability in left.items():
        assert tokens.count(token) == pytest.approx(probability * count, abs=2)
    assert probabilities == pytest.approx([left[token] for token in tokens], abs=1e-6)


def test_the_cut_is_made_at_the_temperature():
    # at 1/2 the first has 64 / 86 = 0.744 and is enough for 0.7 alone; at 1 it takes two
    assert set(drawn(LOGITS, evenly(50), temperature=0.5, top_p=0.7)[0]) == {1}
    assert set(drawn(LOGITS, evenly(50), top_p=0.7)[0]) == {1, 3}


def test_rows_are_cut_apart():
    rows = torch.tensor([[0.0, 5.0, 0.0], [5.0, 0.0, 0.0]])
    for uniform in (0.0, 0.5, 0.999):
        assert sample(rows, points(uniform, uniform), Sampling(1.0, 1, top_p=0.5))[0].tolist() == [1, 0]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([3, 40, 600, 2000]),
    st.floats(0.05, 0.999),
    st.sampled_from([0, 1, 7]),
    st.sampled_from([0.0, 0.05]),
    st.sampled_from([0.5, 1.0, 1.7]),
)
def test_no_token_outside_is_ever_drawn_and_the_rest_is_brought_to_one(seed, size, top_p, top_k, min_p, temperature):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(1, size, generator=generator)
    order = logits[0].argsort(descending=True, stable=True)
    probabilities = (logits[0].double() / temperature).softmax(-1)
    kept = order[:top_k] if top_k else order
    share = probabilities[kept] / probabilities[kept].sum()
    nucleus = kept[: int((share.cumsum(0) - share < top_p - 1e-6).sum())]
    kept = nucleus[probabilities[nucleus] >= (min_p - 1e-6) * probabilities[order[0]]]
    cut = {"top_p": top_p, "top_k": top_k, "min_p": min_p}
    tokens, found = drawn(logits, [0.0, *evenly(20), 1 - 2**-53], temperature, **cut)
    edge = {int(token) for token in order[len(kept) : len(kept) + 1]}  # the next one, should rounding have kept it
    assert set(tokens) <= set(kept.tolist()) | edge
    total = probabilities[kept].sum()
    for token, probability in zip(tokens, found, strict=True):
        slack = sum(float(probabilities[each]) for each in edge)
        assert probability == pytest.approx(float(probabilities[token] / total), rel=1e-3 + slack / float(total))


@pytest.mark.parametrize("uniform", [0.0, 1e-300, 0.25, 0.5, 0.75, 1 - 2**-53])
def test_never_a_token_without_probability(uniform):
    logits = torch.tensor([[OFF, 0.0, OFF, 0.0, OFF], [OFF, OFF, OFF, OFF, 0.0], [0.0, OFF, OFF, OFF, OFF]])
    chosen, logprobs = sample(logits, torch.full((3,), uniform, dtype=torch.float64), Sampling(1.0, 1))
    assert chosen.tolist() == [1 if uniform < 0.5 else 3, 4, 0]
    assert logprobs.exp().tolist() == pytest.approx([0.5, 1, 1])


@pytest.mark.parametrize("size", [511, 512, 513, 1024, 1500])
def test_every_token_of_a_vocabulary_in_blocks_has_its_turn(size):
    # all alike: token i between i / size and (i + 1) / size, across the borders of blocks and up to the last
    tokens, probabilities = drawn(torch.zeros(1, size), evenly(size))
    assert tokens == list(range(size))
    assert probabilities == pytest.approx([1 / size] * size)


@pytest.mark.parametrize("place", [0, 511, 512, 1023, 1024, 1299])
def test_one_token_among_blocks_without_any_probability(place):
    logits = torch.full((1, 1300), OFF)
    logits[0, place] = 2.0
    assert set(drawn(logits, [0.0, *evenly(7), 1 - 2**-53])[0]) == {place}


def test_a_small_probability_at_the_end_of_a_large_vocabulary_is_not_lost():
    # 150,000 tokens of 1e-8 each before one of 1e-6 at the end; float32 sums over all would not tell them apart
    size = 150_000
    probabilities = torch.full((size,), 1e-8, dtype=torch.float64)
    probabilities[0], probabilities[-1] = 1 - 1e-8 * (size - 2) - 1e-6, 1e-6
    logits = probabilities.log().float()[None]
    last = 1 - 1e-6
    assert drawn(logits, [last + 5e-7])[0] == [size - 1]
    before = drawn(logits, [last - 5e-7])[0][0]
    # 5e-7 below the last one's share are 50 tokens of 1e-8
    assert size - 1 - before == pytest.approx(50, abs=15)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.floats(0, 1, exclude_max=True), st.floats(0.05, 5), st.sampled_from([5, 1000, 1024]))
def test_inversion_lands_where_the_cumulative_sum_says(seed, uniform, temperature, size):
    logits = torch.randn(1, size, generator=torch.Generator().manual_seed(seed)) * 4
    chosen, logprob = sample(logits, points(uniform), Sampling(temperature, 1))
    probabilities = (logits / temperature).log_softmax(-1).double().exp()[0].numpy()
    token = int(chosen)
    before = probabilities[:token].sum() / probabilities.sum()
    assert before - 1e-6 <= uniform <= before + probabilities[token] / probabilities.sum() + 1e-6
    assert probabilities[token] > 0
    assert float(logprob) == pytest.approx(np.log(probabilities[token]), abs=1e-4)


@pytest.mark.parametrize("cut", [{}, {"top_p": 0.8}, {"top_k": 20}, {"min_p": 0.1}])
def test_frequencies_over_a_vocabulary_of_several_blocks(cut):
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(1, 1300, generator=generator)
    count = 5000
    uniforms = np.random.default_rng(0).random(count)
    tokens, logprobs = sample(logits.expand(count, -1), torch.from_numpy(uniforms), Sampling(1.0, 1, **cut))
    found = np.bincount(tokens.numpy(), minlength=1300)
    kept = sorted(set(tokens.tolist()))
    expected = logits[0].double().softmax(-1).numpy()
    if cut:
        expected = np.where(np.isin(np.arange(1300), kept), expected, 0)
        expected /= expected.sum()
    common = expected * count >= 5
    observed = [*found[common], found[~common].sum()]
    wanted = [*expected[common] * count, expected[~common].sum() * count]
    if wanted[-1] < 1:
        observed, wanted = observed[:-1], wanted[:-1]
    assert common.sum() >= 5
    assert chisquare(observed, np.asarray(wanted) / sum(wanted) * sum(observed)).pvalue > 0.01
    for token in kept:
        assert float(logprobs[tokens == token][0]) == pytest.approx(
            math.log(expected[token]), abs=1e-2 if cut else 1e-4
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_logits_of_any_type_are_drawn_from_in_float32(dtype):
    tokens, logprobs = sample(LOGITS.to(dtype), points(0.3), Sampling(1.0, 1))
    assert (tokens.tolist(), logprobs.dtype) == ([1], torch.float32)
    assert logprobs.exp().tolist() == pytest.approx([0.5], abs=1e-2)
