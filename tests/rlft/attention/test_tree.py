"""Sequences laid out as a tree: what they have in common stands once in the row."""

from hypothesis import given
from hypothesis import strategies as st

from rlft.attention.tree import Edge, Tree

SEQUENCES = st.lists(st.lists(st.integers(3, 4), max_size=12), min_size=1, max_size=8)


def test_by_value():
    # In order: [1 2 3], [1 2 3 4 5], [1 2 6], [9]. All but [9] share [1 2], the first two 3 as well. The forks come
    # first in a row: 1 2 | 3 | 4 5 | 6 | 9
    sequences = [[9], [1, 2, 6], [1, 2, 3, 4, 5], [1, 2, 3]]
    tree = Tree.of(sequences, stride=1)
    assert (tree.order, tree.shared, tree.size) == ((3, 2, 1, 0), (0, 3, 2, 0), 7)
    assert tree.edges == (
        Edge(0, 2, 6, depth=0, count=3),
        Edge(2, 3, 5, depth=2, count=2),
        Edge(3, 5, 5, depth=3, count=1),
        Edge(5, 6, 6, depth=2, count=1),
        Edge(6, 7, 7, depth=0, count=1),
    )
    assert tree.paths == ((4,), (0, 3), (0, 1, 2), (0, 1))
    ids, positions = tree.row(sequences)
    assert ids.tolist() == [1, 2, 3, 4, 5, 6, 9]
    assert positions.tolist() == [0, 1, 2, 3, 4, 2, 0]


def test_sequences_part_at_a_multiple_of_the_stride_or_at_the_end_of_a_prompt():
    # 7 tokens are equal: with strides of 4 they part after 4, with a prompt that ends at 6 there; equal ones are one
    one, other = [1] * 7 + [2, 3], [1] * 7 + [4]
    assert Tree.of([one, other], stride=4).shared == (0, 4)
    assert Tree.of([one, other], [6, 8], stride=4).shared == (0, 6)
    assert Tree.of([one, other], [8, 9], stride=4).shared == (0, 4)
    assert Tree.of([one, one], stride=4).shared == (0, 9)


def test_single_sequences_are_neighbours_from_long_to_short():
    tree = Tree.of([[1], [2, 2, 2], [3, 3], [4, 4, 4, 4]])
    assert [edge.stop - edge.start for edge in tree.edges] == [4, 3, 2, 1]


def test_no_sequences_and_empty_ones():
    assert Tree.of([]).size == 0
    assert Tree.of([[], [5]]).paths == ((), (0,))


@given(SEQUENCES, st.integers(1, 5))
def test_every_sequence_is_found_in_the_row_and_no_token_stands_in_vain(sequences, stride):
    tree = Tree.of(sequences, stride=stride)
    ids, positions = tree.row(sequences)
    for sequence, path, places in zip(sequences, tree.paths, tree.places, strict=True):
        assert ids[places].tolist() == sequence
        assert positions[places].tolist() == list(range(len(sequence)))
        assert [at for edge in path for at in range(tree.edges[edge].start, tree.edges[edge].stop)] == places.tolist()
    assert set().union(*map(set, tree.places)) == set(range(tree.size))
    assert tree.size == sum(map(len, sequences)) - sum(tree.shared)
    if stride == 1:  # as many tokens as there are different beginnings
        assert tree.size == len({tuple(s[: n + 1]) for s in sequences for n in range(len(s))})
    for number, edge in enumerate(tree.edges):
        assert edge.count == sum(number in path for path in tree.paths)
        below = {at for path in tree.paths if number in path for at in path[path.index(number) + 1 :]}
        assert edge.end == max([edge.stop, *(tree.edges[at].stop for at in below)])
