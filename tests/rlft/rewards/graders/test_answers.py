import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.rewards.graders.lists import exact_match, normalise_answer, token_f1


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Norman-French!", "normanfrench"),
        ("an apple a day", "apple day"),
        ("Theatre", "theatre"),
        ("20\u201318", "2018"),  # an en dash goes as the hyphen does
        ("20-18", "2018"),
        ("\u201cHamlet\u201d", "hamlet"),
        ("A", "a"),  # nothing would be left
        ("+", "+"),
        ("  ", ""),
    ],
)
def test_normal_form(text, normal):
    assert normalise_answer(text) == normal


@pytest.mark.parametrize(
    ("answer", "golds", "exact", "f1"),
    [
        ("the Denver Broncos", ["Denver Broncos"], 1.0, 1.0),
        ("Broncos", ["Denver Broncos"], 0.0, 2 / 3),  # precision 1, recall 1/2
        ("Broncos Broncos", ["Denver Broncos"], 0.0, 1 / 2),  # a word counts as often as gold has it
        ("Denver", ["Paris", "Denver, Colorado", "Denver"], 1.0, 1.0),  # the best of the aliases
        ("yes", ["yes"], 1.0, 1.0),
        ("yes no", ["yes"], 0.0, 0.0),
        ("no", ["no way"], 0.0, 0.0),
        ("", ["Denver"], 0.0, 0.0),
        ("\u5317\u4eac\u5e02\u3002", ["\u5317\u4eac"], 0.0, 4 / 5),  # signs are words: two of three, two of two
        ("\uc11c\uc6b8\uc740", ["\uc11c\uc6b8"], 0.0, 4 / 5),  # Korean by letters, as in KorQuAD
        ("", ["A"], 0.0, 0.0),
    ],
)
def test_scores_by_value(answer, golds, exact, f1):
    assert exact_match(answer, golds) == exact
    assert token_f1(answer, golds) == pytest.approx(f1)


@given(st.text(max_size=40), st.text(max_size=40))
def test_f1_is_full_for_equal_words_only_and_exact_implies_it(answer, gold):
    score = token_f1(answer, [gold])
    assert 0.0 <= score <= 1.0
    assert (score == 1.0) >= (exact_match(answer, [gold]) == 1.0)
    assert (score == 1.0) <= (sorted(normalise_answer(answer).split()) == sorted(normalise_answer(gold).split()))
