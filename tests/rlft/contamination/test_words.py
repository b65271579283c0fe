import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.contamination.words import runs, words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "  Janet\u2019s DUCKS lay\n16 eggs!",
            "janets ducks lay 16 eggs",
        ),  # apostrophe, case, white space, punctuation
        ("Don't (really) stop...", "dont really stop"),
        ("Stra\u00dfe", "strasse"),  # case-folded
        (
            "\uff11\uff12 \ufb01sh caf\u00e9 cafe\u0301",
            "12 fish caf\u00e9 caf\u00e9",
        ),  # NFKC: wide digits, a ligature, an accent
        ("3 * 4 - 5", "3 * 4 - 5"),
        ("3*4-5=7", "3 * 4 - 5 = 7"),
        ("pre-party and/or 5-3", "pre party and or 5 - 3"),  # between letters they are no arithmetic
        ("x \u2264 1.5, or 2. Next", "x \u2264 1.5 or 2 next"),
        ("min_cost(a, b) -> $5", "min cost a b - > 5"),
        ("\u6771\u4eac\u3067 2", "\u6771 \u4eac \u3067 2"),  # no spaces between words: each character is one
        ("\u0e01\u0e35\u0e48\u0e1a\u0e32\u0e17 5", "\u0e01\u0e35\u0e48 \u0e1a \u0e32 \u0e17 5"),  # Thai, with its marks
        ("\uc11c\uc6b8\uc740 \ud06c\ub2e4", "\uc11c\uc6b8\uc740 \ud06c\ub2e4"),  # Korean has spaces
        (
            "\u0939\u093f\u0928\u094d\u0926\u0940 \u0939\u0948",
            "\u0939\u093f\u0928\u094d\u0926\u0940 \u0939\u0948",
        ),  # vowel signs
        ("Pe\u200bru \ufeffso\u00adft v\ufe0fs", "peru soft vs"),  # what nobody sees
        ("P\u0435ru \u0421\u03bf\u0501\u0435", "peru code"),  # letters of Cyrillic and Greek that look like Latin
        ("\ud800?!", ""),
    ],
)
def test_words(text, found):
    assert words(text) == found.split()


@given(st.text(st.characters(codec="ascii")))
def test_case_and_white_space_do_not_matter(text):
    assert words(text.upper()) == words(text)
    assert words(" ".join(text.split())) == words(text)


@given(st.text())
def test_words_of_words_are_the_same(text):
    # Folding the case of some letters gives others that NFKC changes again, so it is one pass later that all is still.
    found = " ".join(words(text))
    again = " ".join(words(found))
    assert words(again) == again.split()


@given(st.lists(st.sampled_from("ab"), max_size=12), st.integers(1, 14))
def test_runs_are_equal_where_their_words_are(drawn, length):
    found = runs(drawn, length)
    said = [tuple(drawn[i : i + length]) for i in range(max(0, len(drawn) - length + 1))]
    assert [found.index(each) for each in found] == [said.index(each) for each in said]
