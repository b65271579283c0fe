"""Attention over some of the keys: the numbers of a softmax, and parts that add up to the whole."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.attention import packed
from rlft.attention.packed import attend, attend_backward, merge_

SCALE = 0.6
HEADS = [(4, 4), (4, 2), (6, 1)]  # heads of the query, heads of the keys


def draw(seed, *shapes, dtype=torch.float64, size=1.0):
    generator = torch.Generator().manual_seed(seed)
    return [(size * torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype) for shape in shapes]


def tensors(seed, queries, keys, *, heads=(4, 2), batch=2, width=8, **options):
    shapes = [(batch, heads[0], queries, width), *[(batch, heads[1], keys, width)] * 2]
    return draw(seed, *shapes, **options)


def softmax_attention(query, key, value, *, causal=False, mask=None):
    """Written out: every score in memory, keys repeated for the heads that share them."""
    repeat = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeat, 1), value.repeat_interleave(repeat, 1)
    scores = torch.einsum("bhqw,bhkw->bhqk", query, key) * SCALE
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -math.inf)
    if mask is not None:
        scores = scores + mask
    return scores.softmax(-1) @ value, scores.logsumexp(-1)


def test_by_value():
    # scores 0 and ln 3 (scale 1): weights 1/4 and 3/4 of the values 0 and 8; the sum of exponentials is 1 + 3
    query, key = torch.tensor([[[[1.0]]]]), torch.tensor([[[[0.0], [math.log(3)]]]])
    output, log_sum_exp = attend(query, key, torch.tensor([[[[0.0], [8.0]]]]), scale=1.0)
    assert output.item() == pytest.approx(6)
    assert log_sum_exp.item() == pytest.approx(math.log(4))


def test_merging_by_value():
    # a part with a sum of 1 and the output 0, and one with a sum of 3 and the output 8: 3/4 of 8, and 1 + 3
    output, log_sum_exp = torch.zeros(1, 1), torch.zeros(1)
    merge_(output, log_sum_exp, torch.tensor([[8.0]]), torch.tensor([math.log(3)]))
    assert output.item() == pytest.approx(6)
    assert log_sum_exp.item() == pytest.approx(math.log(4))


WAYS = {  # the kernel of the processor, and what runs where there is no kernel
    "kernel": (attend, attend_backward),
    "dense": (
        lambda q, k, v, *, scale, causal=False, mask=None: packed._attend_densely(q, k, v, scale, causal, mask),
        lambda g, q, k, v, o, s, *, scale, causal=False: packed._attend_densely_backward(
            g, q, k, v, o, s, scale, causal
        ),
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_a_softmax(way, heads, causal):
    query, key, value = tensors(0, 7, 7, heads=heads)
    output, log_sum_exp = WAYS[way][0](query, key, value, scale=SCALE, causal=causal)
    expected, expected_sum = softmax_attention(query, key, value, causal=causal)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(log_sum_exp, expected_sum, rtol=0, atol=1e-12)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("heads", HEADS)
def test_a_mask_takes_keys_away(way, heads):
    query, key, value = tensors(1, 3, 5, heads=heads)
    mask = torch.zeros(2, 1, 1, 5, dtype=torch.float64)
    mask[0, :, :, 3:], mask[1, :, :, 1:] = -math.inf, -math.inf
    output, log_sum_exp = WAYS[way][0](query, key, value, scale=SCALE, mask=mask)
    for row, kept in ((0, 3), (1, 1)):
        part = (query[row : row + 1], key[row : row + 1, :, :kept], value[row : row + 1, :, :kept])
        expected, expected_sum = softmax_attention(*part)
        torch.testing.assert_close(output[row : row + 1], expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(log_sum_exp[row : row + 1], expected_sum, rtol=0, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**16), st.lists(st.integers(1, 5), min_size=2, max_size=4), st.sampled_from([0.1, 1, 30]))
def test_parts_in_any_number_make_the_whole(seed, sizes, size):
    # `size` 30: the parts' sums differ by hundreds of powers of e
    query, key, value = tensors(seed, 3, sum(sizes), size=size)
    parts = zip(key.split(sizes, 2), value.split(sizes, 2), strict=True)
    (output, log_sum_exp), *others = [attend(query, *part, scale=SCALE) for part in parts]
    for other in others:
        merge_(output, log_sum_exp, *other)
    expected, expected_sum = softmax_attention(query, key, value)
    torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-10)
    torch.testing.assert_close(log_sum_exp, expected_sum, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("heads", HEADS)
def test_gradients_through_parts_are_those_of_the_whole(way, heads):
    forward, backward = WAYS[way]
    leaves = [tensor.requires_grad_() for tensor in tensors(2, 5, 9, heads=heads)]
    query, key, value = (leaf.detach() for leaf in leaves)
    output, log_sum_exp = softmax_attention(*leaves)
    (gradient,) = draw(3, output.shape)
    output.backward(gradient)
    whole = forward(query, key, value, scale=SCALE)
    found = [
        backward(gradient, query, key[:, :, part], value[:, :, part], *whole, scale=SCALE)
        for part in (slice(0, 4), slice(4, 9))
    ]
    torch.testing.assert_close(found[0][0] + found[1][0], leaves[0].grad, rtol=0, atol=1e-12)
    for place in (1, 2):  # each key has its gradient from the one part that it is in
        torch.testing.assert_close(torch.cat([f[place] for f in found], 2), leaves[place].grad, rtol=0, atol=1e-12)
    torch.testing.assert_close(whole[1], log_sum_exp.detach(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("heads", HEADS)
def test_causal_gradients(way, heads):
    leaves = [tensor.requires_grad_() for tensor in tensors(4, 6, 6, heads=heads)]
    output, _ = softmax_attention(*leaves, causal=True)
    (gradient,) = draw(5, output.shape)
    output.backward(gradient)
    plain = [leaf.detach() for leaf in leaves]
    whole = WAYS[way][0](*plain, scale=SCALE, causal=True)
    for found, leaf in zip(WAYS[way][1](gradient, *plain, *whole, scale=SCALE, causal=True), leaves, strict=True):
        torch.testing.assert_close(found, leaf.grad, rtol=0, atol=1e-12)


@pytest.mark.parametrize("way", WAYS)
def test_a_log_sum_exp_that_is_huge_gives_zeros(way):
    # so are padded places made harmless: exp(score - 1e30) = 0, exactly
    query, key, value = tensors(6, 4, 4, dtype=torch.float32)
    gradient, output = draw(7, query.shape, query.shape, dtype=torch.float32)
    nothing = torch.full(query.shape[:3], 1e30)
    for found in WAYS[way][1](gradient, query, key, value, output, nothing, scale=SCALE, causal=True):
        assert torch.equal(found, torch.zeros_like(found))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2), (torch.float16, 3e-3)])
def test_shorter_types(way, dtype, tolerance):
    query, key, value = tensors(8, 6, 6, dtype=dtype)
    (gradient,) = draw(9, query.shape, dtype=dtype)
    output, log_sum_exp = WAYS[way][0](query, key, value, scale=SCALE, causal=True)
    assert (output.dtype, log_sum_exp.dtype) == (dtype, torch.float32)
    leaves = [tensor.double().requires_grad_() for tensor in (query, key, value)]
    expected, expected_sum = softmax_attention(*leaves, causal=True)
    expected.backward(gradient.double())
    torch.testing.assert_close(output.double(), expected.detach(), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(log_sum_exp.double(), expected_sum.detach(), rtol=tolerance, atol=tolerance)
    found = WAYS[way][1](gradient, query, key, value, output, log_sum_exp, scale=SCALE, causal=True)
    for mine, leaf in zip(found, leaves, strict=True):
        assert mine.dtype == dtype
        assert (mine.double() - leaf.grad).norm() <= 2 * tolerance * leaf.grad.norm()
