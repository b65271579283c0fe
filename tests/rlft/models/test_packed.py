"""A row that is a tree: a token sees the beginning of its sequence, and gradients come back to where they belong."""

from itertools import count

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.models.attention.packed import Block, Edge, PackedTree, Tree, make_blocks

SCALE, WIDTH = 0.5, 8
CPU = torch.device("cpu")


def layout(shapes):
    """A tree of groups, [(tokens in common, lengths of what is each one's own)], or of other such below them."""
    numbers = count()

    def sequences(shape):
        common, below = shape
        beginning = [next(numbers) for _ in range(common)]
        rest = ([[next(numbers) for _ in range(n)]] if isinstance(n, int) else sequences(n) for n in below)
        return [beginning + own for each in rest for own in each]

    return Tree.of([sequence for shape in shapes for sequence in sequences(shape)], stride=1)


def visible(tree):
    """Which token [row] sees which [column]: those of one sequence, up to itself."""
    sees = torch.zeros(tree.size, tree.size, dtype=torch.bool)
    for places in tree.places:
        for position, place in enumerate(places):
            sees[place, places[: position + 1]] = True
    return sees


def reference(tree, query, key, value):
    repeat = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeat, 1), value.repeat_interleave(repeat, 1)
    scores = (query @ key.transpose(-1, -2) * SCALE).masked_fill(~visible(tree), -torch.inf)
    return scores.softmax(-1) @ value


def draw(tree, *, heads=(4, 2), seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    size = tree.size
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
    "nothing in common": [(0, [9, 8, 8, 7, 1])],
    "nothing in common, equal lengths": [(0, [5, 5, 5])],
    "some with nothing in common": [(3, [4, 2]), (0, [6, 5, 1]), (2, [1, 1])],
    "several groups": [(5, [3, 2, 2]), (1, [6]), (2, [0, 0]), (7, [1, 1, 5, 5])],
    "groups with a beginning in common": [(6, [(3, [4, 4, 2]), (2, [3, 3]), 5, 4]), (0, [3, 4])],
    "turns": [(3, [(2, [(4, [(1, [2, 1]), 3]), 0]), 6])],
}


@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (6, 1)])
@pytest.mark.parametrize("name", SHAPES)
def test_output_and_gradients_are_those_of_a_masked_softmax(name, heads):
    tree = layout(SHAPES[name])
    leaves, gradient = draw(tree, heads=heads)
    found = run(lambda q, k, v: PackedTree(tree.edges).attend(0, q, k, v, SCALE), leaves, gradient)
    again = [leaf.detach().requires_grad_() for leaf in leaves]
    for mine, plain in zip(found, run(lambda *qkv: reference(tree, *qkv), again, gradient), strict=True):
        torch.testing.assert_close(mine, plain, rtol=0, atol=1e-10)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9), min_size=1, max_size=8))
def test_trees_of_any_shape(sequences):
    tree = Tree.of(sequences, stride=1)
    leaves, gradient = draw(tree, seed=len(sequences))
    found = run(lambda q, k, v: PackedTree(tree.edges).attend(0, q, k, v, SCALE), leaves, gradient)
    again = [leaf.detach().requires_grad_() for leaf in leaves]
    for mine, plain in zip(found, run(lambda *qkv: reference(tree, *qkv), again, gradient), strict=True):
        torch.testing.assert_close(mine, plain, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_shorter_types(dtype, tolerance):
    tree = layout(SHAPES["several groups"])
    leaves, gradient = draw(tree, dtype=dtype)
    found = run(lambda q, k, v: PackedTree(tree.edges).attend(0, q, k, v, SCALE), leaves, gradient)
    again = [leaf.detach().double().requires_grad_() for leaf in leaves]
    expected = run(lambda *qkv: reference(tree, *qkv), again, gradient.double())
    for mine, plain in zip(found, expected, strict=True):
        assert mine.dtype == dtype
        assert (mine.double() - plain).norm() <= tolerance * plain.norm()


def test_nothing_passes_between_sequences():
    tree = layout([(2, [(3, [4, 4, 2]), (2, [3, 1])])])
    leaves, _ = draw(tree, dtype=torch.float32)
    attention = PackedTree(tree.edges)
    before = attention.attend(0, *leaves, SCALE)
    changed = [leaf.detach().clone() for leaf in leaves]
    own = tree.places[1][-4:]  # of the second completion of the first group
    for tensor in changed:
        tensor[:, :, own] = 7 * torch.ones(())
    after = attention.attend(0, *changed, SCALE)
    others = sorted(set(range(tree.size)) - set(own.tolist()))
    assert torch.equal(before[:, :, others], after[:, :, others])
    assert not torch.equal(before[:, :, own], after[:, :, own])


def test_a_gradient_that_is_one_number_for_all():
    # what `sum` hands back is a view of one number, without strides
    tree = layout(SHAPES["lengths far apart, in blocks of their own"])
    leaves, gradient = draw(tree)
    PackedTree(tree.edges).attend(0, *leaves, SCALE).sum().backward()
    again = [leaf.detach().requires_grad_() for leaf in leaves]
    expected = run(lambda *qkv: reference(tree, *qkv), again, torch.ones_like(gradient))
    for leaf, plain in zip(leaves, expected[1:], strict=True):
        torch.testing.assert_close(leaf.grad, plain, rtol=0, atol=1e-10)


def test_heads_first_is_also_read_from_the_layout_that_models_have():
    # models give [1, tokens, heads, width] transposed, and take the output back in that layout without a copy
    tree = layout(SHAPES["several groups"])
    leaves, _ = draw(tree)
    strided = [leaf.detach().transpose(1, 2).contiguous().transpose(1, 2) for leaf in leaves]
    output = PackedTree(tree.edges).attend(0, *strided, SCALE)
    torch.testing.assert_close(output, reference(tree, *leaves).detach(), rtol=0, atol=1e-10)
    assert output.transpose(1, 2).is_contiguous()


def test_blocks_by_value():
    # A prompt of 3, and below it 9, 8, 2 and 1 tokens: 8 is at least 3/4 of 9, and 2 is not; then two without a prompt.
    tree = layout([(3, [9, 8, 2, 1]), (0, [4, 4])])
    assert list(make_blocks(tree.edges)) == [
        Block(0, (3,), covered=False, forks=True),
        Block(3, (9, 8), covered=True, forks=False),
        Block(20, (2,), covered=True, forks=False),
        Block(22, (1,), covered=True, forks=False),
        Block(23, (4, 4), covered=False, forks=False),
    ]


def test_padding_repeats_the_last_token():
    index, real = Block(5, (3, 2), covered=True, forks=False).padding(CPU)
    assert index.tolist() == [[5, 6, 7], [8, 9, 9]]
    assert real.tolist() == [[True, True, True], [True, True, False]]
    assert Block(5, (3, 3), covered=True, forks=False).padding(CPU) is None


@given(st.lists(st.integers(1, 60), max_size=20))
def test_blocks_hold_every_edge_once_and_pad_little(lengths):
    edges, start = [], 4
    for length in sorted(lengths, reverse=True):
        edges.append(Edge(start, start + length, start + length, depth=4, count=1))
        start += length
    blocks = list(make_blocks(edges))
    assert [length for block in blocks for length in block.lengths] == [edge.stop - edge.start for edge in edges]
    assert [block.start for block in blocks] == [4, *(block.end for block in blocks)][: len(blocks)]
    assert all(block.lengths[-1] >= 0.75 * block.lengths[0] for block in blocks)
