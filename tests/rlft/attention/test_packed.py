"""A row of groups: every completion sees its prompt and itself, and gradients come back to where they belong."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.attention.packed import Block, Group, PackedGroups

SCALE, WIDTH = 0.5, 8
CPU = torch.device("cpu")


def layout(shapes):
    """Groups, one after the other, from [(prompt, completions)]."""
    groups, start = [], 0
    for prompt, lengths in shapes:
        groups.append(Group(start, prompt, tuple(sorted(lengths, reverse=True))))
        start = groups[-1].end
    return groups


def visible(groups):
    """Which token [row] sees which [column], said in words: of its own group, the prompt's and its own completion's."""
    size = groups[-1].end
    owner = torch.full((size,), -1)  # which completion a token is of, -1 in a prompt
    group_of = torch.zeros(size, dtype=torch.int64)
    number = 0
    for index, group in enumerate(groups):
        group_of[group.start : group.end] = index
        start = group.completions
        for length in group.lengths:
            owner[start : start + length] = number
            start, number = start + length, number + 1
    same = (group_of[:, None] == group_of) & ((owner == -1) | (owner[:, None] == owner))
    return same & torch.ones(size, size).tril().bool()


def reference(groups, query, key, value):
    repeat = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeat, 1), value.repeat_interleave(repeat, 1)
    scores = (query @ key.transpose(-1, -2) * SCALE).masked_fill(~visible(groups), -torch.inf)
    return scores.softmax(-1) @ value


def draw(groups, *, heads=(4, 2), seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    size = groups[-1].end
    shapes = [(1, heads[0], size, WIDTH), (1, heads[1], size, WIDTH), (1, heads[1], size, WIDTH)]
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]
    gradient = torch.randn(shapes[0], generator=generator, dtype=torch.float64).to(dtype)
    return [tensor.requires_grad_() for tensor in drawn], gradient


def run(attend, leaves, gradient):
    output = attend(*leaves)
    output.backward(gradient)
    return [output.detach(), *(leaf.grad for leaf in leaves)]


SHAPES = {
    "one completion of one token": [(1, [1])],
    "a prompt alone": [(4, [0, 0])],
    "equal lengths, no padding": [(3, [4, 4, 4])],
    "lengths alike, in one padded block": [(3, [8, 7, 7, 6])],
    "lengths far apart, in blocks of their own": [(2, [40, 9, 8, 2, 1, 1, 0])],
    "no prompt in common": [(0, [9, 8, 8, 7, 1])],
    "no prompt in common, equal lengths": [(0, [5, 5, 5])],
    "some without a prompt in common": [(3, [4, 2]), (0, [6, 5, 1]), (2, [1])],
    "several groups": [(5, [3, 2, 2]), (1, [6]), (2, [0, 0]), (7, [1, 1, 5, 5])],
}


@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (6, 1)])
@pytest.mark.parametrize("name", SHAPES)
def test_output_and_gradients_are_those_of_a_masked_softmax(name, heads):
    groups = layout(SHAPES[name])
    leaves, gradient = draw(groups, heads=heads)
    found = run(lambda q, k, v: PackedGroups(groups).attend(0, q, k, v, SCALE), leaves, gradient)
    again = [leaf.detach().requires_grad_() for leaf in leaves]
    for mine, plain in zip(found, run(lambda *qkv: reference(groups, *qkv), again, gradient), strict=True):
        torch.testing.assert_close(mine, plain, rtol=0, atol=1e-10)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.lists(st.integers(0, 12), min_size=1, max_size=6)), min_size=1, max_size=4)
)
def test_groups_of_any_shape(shapes):
    groups = layout(shapes)
    leaves, gradient = draw(groups, seed=len(shapes))
    found = run(lambda q, k, v: PackedGroups(groups).attend(0, q, k, v, SCALE), leaves, gradient)
    again = [leaf.detach().requires_grad_() for leaf in leaves]
    for mine, plain in zip(found, run(lambda *qkv: reference(groups, *qkv), again, gradient), strict=True):
        torch.testing.assert_close(mine, plain, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_shorter_types(dtype, tolerance):
    groups = layout(SHAPES["several groups"])
    leaves, gradient = draw(groups, dtype=dtype)
    found = run(lambda q, k, v: PackedGroups(groups).attend(0, q, k, v, SCALE), leaves, gradient)
    again = [leaf.detach().double().requires_grad_() for leaf in leaves]
    expected = run(lambda *qkv: reference(groups, *qkv), again, gradient.double())
    for mine, plain in zip(found, expected, strict=True):
        assert mine.dtype == dtype
        assert (mine.double() - plain).norm() <= tolerance * plain.norm()


def test_nothing_passes_between_completions_or_groups():
    groups = layout([(3, [4, 4, 2]), (2, [3, 1])])
    leaves, _ = draw(groups, dtype=torch.float32)
    attention = PackedGroups(groups)
    before = attention.attend(0, *leaves, SCALE)
    changed = [leaf.detach().clone() for leaf in leaves]
    own = slice(groups[0].completions + 4, groups[0].completions + 8)  # the second completion of the first group
    for tensor in changed:
        tensor[:, :, own] = 7 * torch.ones(())
    after = attention.attend(0, *changed, SCALE)
    assert torch.equal(before[:, :, : own.start], after[:, :, : own.start])
    assert torch.equal(before[:, :, own.stop :], after[:, :, own.stop :])
    assert not torch.equal(before[:, :, own], after[:, :, own])


def test_a_gradient_that_is_one_number_for_all():
    # what `sum` hands back is a view of one number, without strides
    groups = layout(SHAPES["lengths far apart, in blocks of their own"])
    leaves, gradient = draw(groups)
    PackedGroups(groups).attend(0, *leaves, SCALE).sum().backward()
    again = [leaf.detach().requires_grad_() for leaf in leaves]
    expected = run(lambda *qkv: reference(groups, *qkv), again, torch.ones_like(gradient))
    for leaf, plain in zip(leaves, expected[1:], strict=True):
        torch.testing.assert_close(leaf.grad, plain, rtol=0, atol=1e-10)


def test_heads_first_is_also_read_from_the_layout_that_models_have():
    # models give [1, tokens, heads, width] transposed, and take the output back in that layout without a copy
    groups = layout(SHAPES["several groups"])
    leaves, _ = draw(groups)
    strided = [leaf.detach().transpose(1, 2).contiguous().transpose(1, 2) for leaf in leaves]
    output = PackedGroups(groups).attend(0, *strided, SCALE)
    torch.testing.assert_close(output, reference(groups, *leaves).detach(), rtol=0, atol=1e-10)
    assert output.transpose(1, 2).is_contiguous()


def test_where_things_stand():
    # prompt at 10, 11, 12; completions of 9, 8, 2, 1, 0 from 13: 13-21, 22-29, 30-31, 32
    group = Group(10, 3, (9, 8, 2, 1, 0))
    assert (group.completions, group.end) == (13, 33)
    # 8 is at least 3/4 of 9, 2 is not; 1 is not 3/4 of 2
    assert list(group.blocks()) == [Block(13, (9, 8)), Block(30, (2,)), Block(32, (1,))]
    assert Block(13, (9, 8)).end == 30


def test_padding_repeats_the_last_token():
    index, real = Block(5, (3, 2)).padding(CPU)
    assert index.tolist() == [[5, 6, 7], [8, 9, 9]]
    assert real.tolist() == [[True, True, True], [True, True, False]]
    assert Block(5, (3, 3)).padding(CPU) is None


@given(st.lists(st.integers(0, 60), max_size=20))
def test_blocks_hold_every_completion_once_and_pad_little(lengths):
    ordered = tuple(sorted(lengths, reverse=True))
    group = Group(4, 2, ordered)
    blocks = list(group.blocks())
    assert [length for block in blocks for length in block.lengths] == [length for length in ordered if length]
    start = group.completions
    for block in blocks:
        assert block.start == start
        start = block.end
        assert block.lengths[-1] >= 0.75 * block.lengths[0]
    assert start == group.end
