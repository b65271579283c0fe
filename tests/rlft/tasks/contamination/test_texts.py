from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.tasks.contamination import normal, text_of_task, weight, words
from tests.factories import make_task


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  Janet\u2019s DUCKS lay\n16 eggs!", "janet's ducks lay 16 eggs!"),
        ("\uff11\uff12 \ufb01sh caf\u00e9 Stra\u00dfe", "12 fish cafe strasse"),  # NFKC, accents, case
        (
            "\u0439 \u0e40\u0e01\u0e48\u0e32",
            "\u0439 \u0e40\u0e01\u0e48\u0e32",
        ),  # marks that are no accents of Latin stay
        ("3 \u00d7 4 \u2212 5", "3 * 4 - 5"),
        ("2**3, **16** eggs<br/>a <b>", "2**3, 16 eggs a <b>"),
        ("Pe\u200bru P\u0435ru", "peru peru"),  # what nobody sees, and a letter of Cyrillic
        ("Which?\nA) x y\nB) a\nC) m", "which? a m x y"),
        ("Which? (A) x (B) a (C) m", "which? a m x"),
        ("Sort: 1. x 2. a 3. m, vitamin B. c", "sort: 1. x 2. a 3. m, vitamin b. c"),  # no options A, B, C
        ("??", "??"),
    ],
)
def test_normal_texts(text, expected):
    assert normal(text) == expected


@given(st.text(st.characters(codec="ascii", exclude_characters="*<")))
def test_case_and_white_space_do_not_matter(text):
    assert normal(text.upper()) == normal(text)


@pytest.mark.parametrize(
    ("text", "found", "weights"),
    [
        ("don't stop, x is 1.5!", ["don't", "stop", "x", "is", "1.5"], [1, 1, 0, 1, 0]),
        ("\u6771\u4eac\u3067 2", ["\u6771", "\u4eac", "\u3067", "2"], [0.5, 0.5, 0.5, 0]),  # no spaces between words
        ("gpt\u6771", ["gpt", "\u6771"], [1, 0.5]),
        (
            "\u0e40\u0e01\u0e48\u0e32",
            ["\u0e40", "\u0e01\u0e48", "\u0e32"],
            [0.25] * 3,
        ),  # Thai: a mark goes with its letter
        ("\uc11c\uc6b8\uc740 \ud06c\ub2e4", ["\uc11c\uc6b8\uc740", "\ud06c\ub2e4"], [1, 1]),  # Korean has spaces
        ("\u0939\u093f\u0928\u094d\u0926\u0940", ["\u0939\u093f\u0928\u094d\u0926\u0940"], [1]),  # vowel signs
        ("a..c. +e H2O", ["a", "c", "e", "H2O"], [0, 0, 0, 0]),
    ],
)
def test_words_and_what_they_count(text, found, weights):
    assert words(text) == found
    assert [weight(word) for word in found] == weights


def test_the_system_prompt_is_the_harness_s():
    prompt = (
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "An X-ray."},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "Why"},
    )
    text = text_of_task(replace(make_task(), prompt=prompt))
    assert (text.parts, text.prompt, text.signs) == ((["an", "x", "ray"], [], ["why"]), "an x-ray. why", 2)
    assert text_of_task(replace(make_task(), prompt=prompt[:1])).prompt == "be kind."
