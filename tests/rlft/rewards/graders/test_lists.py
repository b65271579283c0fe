"""Lists of items, read and compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.rewards.graders.lists import compare_items, read_items


@pytest.mark.parametrize(
    "value",
    [
        ["a", "b c", "1"],
        "a, b c, 1",
        "a; b c;; 1",
        "- a\n- b c\n- 1",
        "1. a\n2. b c\n3) 1",
        "a\u3001b c\uff0c1",
        "a\uff1bb c\uff641",
        "a\u060c b c\u061b 1",
        ["a", "b c", 1],
        ' ["a", "b c", 1]\n',
    ],
)
def test_a_list_is_read_from_json_and_from_text(value):
    assert read_items(value) == ["a", "b c", "1"]


def test_a_number_before_an_item_stays_where_items_are_not_numbered():
    assert read_items("- 2. Mai\n- 3. Juni", numbered=False) == ["2. Mai", "3. Juni"]


def test_the_items_of_an_object_are_its_pairs():
    assert read_items({"a": 1, "b": ["x", "y"], "c": []}) == ["a: 1", "b: x", "b: y"]


def test_what_is_no_list_is_none():
    assert read_items(None) is None
    assert read_items(["a"] * 10_001) is None
    assert read_items("a|b, c", "|") == ["a", "b, c"]
    assert read_items('["a|b", "c"]', "|") == ["a|b", "c"]
    assert read_items("[a, b]") == ["[a", "b]"]  # no JSON
    assert read_items("[" * 100_000 + "]") == ["[" * 100_000 + "]"]


@pytest.mark.parametrize(
    ("compared", "score"), [("precision", 2 / 3), ("recall", 2 / 4), ("f1", 4 / 7), ("jaccard", 2 / 5), ("exact", 0.0)]
)
def test_the_shares(compared, score):
    # a and b in common, of three given and four right ones; five in either.
    assert compare_items(["a", "b", "x"], ["a", "b", "c", "d"], compared) == pytest.approx(score)


def test_the_order_counts_if_it_is_asked():
    # of b a the longest run in the order a b is one item
    assert compare_items(["b", "a"], ["a", "b"], "recall", ordered=True) == 0.5
    assert compare_items(["b", "a"], ["a", "b"], "exact") == 1.0
    assert compare_items(["b", "a"], ["a", "b"], "exact", ordered=True) == 0.0
    assert compare_items(["a", "a"], ["a"], "jaccard") == 0.5  # what stands twice counts twice
    assert compare_items([], [], "f1") == 1.0
    assert compare_items([], ["a"], "precision") == 0.0


@given(
    items=st.lists(st.text(max_size=3), max_size=8), compared=st.sampled_from(["precision", "recall", "f1", "jaccard"])
)
def test_the_same_list_is_full_and_a_longer_one_no_more(items, compared):
    assert compare_items(items, items, compared) == 1.0
    assert 0 <= compare_items([*items, "more"], items, compared) <= 1.0
