"""Texts in one form, and their sizes."""

import pytest

from rlft.rewards.graders.plain import normal, plain, size


def test_values_have_one_text():
    assert [plain(value) for value in ("x", 3.0, 3.5, True, None, [1, "ä"], {"b": 1, "a": 2})] == [
        "x", "3", "3.5", "true", "null", '[1, "ä"]', '{"a": 2, "b": 1}'
    ]  # fmt: skip


def test_texts_are_compared_in_one_form():
    assert normal("Cafe\u0301  X", ignore_case=True, ignore_space=True) == "café x"
    assert normal("A  b", ignore_case=False, ignore_space=False) == "A  b"


@pytest.mark.parametrize(("measured", "number"), [("characters", 36), ("words", 7), ("lines", 3)])
def test_sizes(measured, number):
    # 11 + 1 + 7 + 2 + 15: "One. “Two!”", "no end?", "Three dots… yes" and what is between them
    assert size(" One. “Two!”\nno end?\n\nThree dots… yes\n", measured) == number


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "\u6771\u4eactower \u306f 3\u500b\u3001OK",
            7,
        ),  # Japanese: 2 signs and a word, 1 sign, 3, 1 sign, OK
        ("\u0e01\u0e47\u0e01\u0e34\u0e19", 3),  # Thai: two letters with a mark each, and one
        ("\u0e9e\u0eb2\u0eaa\u0eb2", 4),  # Lao
        ("\uc218\ub3c4\ub294 \uc11c\uc6b8\uc785\ub2c8\ub2e4", 2),  # Korean has spaces
        ("\u1797\u17b6\u179f\u17b6", 2),  # Khmer: two letters with a vowel sign each
        ("\u1019\u102c\u1018\u102c", 2),  # Burmese: the same
        ("\ud55c\uad6d\uc5b4 a - b", 4),  # Korean has spaces
    ],
)
def test_signs_of_scripts_without_spaces_are_counted_as_words(text, words):
    assert size(text, "words") == words


def test_an_empty_text_has_nothing():
    assert {size("  \n", each) for each in ("characters", "words", "lines")} == {0}
