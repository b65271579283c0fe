"""Text from anywhere as a person may see it."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rlft.texts.characters import visible, visible_json

STEERING = [
    *map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), "\u061c", "\u200e", "\u200f", "\u2028", "\u2029",
    *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A)), "\ud800", "\udfff",
]  # fmt: skip
ANY = st.text(st.characters(exclude_categories=()) | st.sampled_from(STEERING))  # half surrogate pairs too


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a\tb\nc\x1b]0;title\x07\x9b", "a\tb\nc\\x1b]0;title\\x07\\x9b"),
        ("\x00\x85right \u202eleft\u202c\u2066", "\\x00\\x85right \\u202eleft\\u202c\\u2066"),
        ("over\rwritten\x7f\u2028\u200f\ud800", "over\\rwritten\\x7f\\u2028\\u200f\\ud800"),
        ("é 漢字 😀 \u0301 [red] \\x1b", "é 漢字 😀 \u0301 [red] \\x1b"),
    ],
)
def test_what_steers_is_written_out_and_the_rest_stays(text, seen):
    assert visible(text) == seen


@pytest.mark.slow
@given(ANY)
@example("".join(STEERING))
def test_nothing_that_steers_is_left(text):
    seen = visible(text)
    assert not set(seen) & (set(STEERING) - {"\t", "\n"})
    assert visible(seen) == seen
    seen.encode()  # half surrogate pairs would stop the program here


@pytest.mark.slow
@given(st.recursive(st.none() | st.integers() | ANY, lambda inner: st.lists(inner) | st.dictionaries(ANY, inner)))
@example("".join(STEERING))
def test_json_holds_nothing_that_steers_and_says_the_same(value):
    text = visible_json(value)
    assert not set(text) & (set(STEERING) - {"\n"})
    assert json.loads(text.encode()) == json.loads(json.dumps(value))  # two halves of a pair become one character
