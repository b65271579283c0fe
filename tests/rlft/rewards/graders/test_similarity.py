"""How alike two texts are: the numbers of the papers' formulas, by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.rewards.graders.plain import similarity

MEASURES = ("fuzzy_match", "rouge_1", "rouge_l")
CAT = "The cat sat on the mat", "the cat is on the mat"


@pytest.mark.parametrize(
    ("measure", "score"),
    [
        # 22 and 21 letters; the longest common subsequence has 19 ("he cat s on the mat"): 2 * 19 / 43.
        ("fuzzy_match", 38 / 43),
        # words: the cat sat on the mat / the cat is on the mat; in common the, cat, on, the, mat: 2 * 5 / 12.
        ("rouge_1", 10 / 12),
        ("rouge_l", 10 / 12),
    ],
)
def test_the_score_is_the_formulas(measure, score):
    assert similarity(measure, *CAT) == pytest.approx(score)


def test_signs_of_scripts_without_spaces_are_words():
    # I like Beijing, I like Shanghai: three of five signs, in a row at the beginning
    beijing, shanghai = "\u6211\u559c\u6b22\u5317\u4eac", "\u6211\u559c\u6b22\u4e0a\u6d77"
    assert similarity("rouge_1", beijing, shanghai) == pytest.approx(3 / 5)
    assert similarity("rouge_l", beijing, shanghai) == pytest.approx(3 / 5)


@given(text=st.text(max_size=60), other=st.text(max_size=60), measure=st.sampled_from(MEASURES))
def test_likeness_is_from_0_to_1_and_1_with_itself(text, other, measure):
    found = similarity(measure, text, other)
    assert 0 <= found <= 1


@pytest.mark.parametrize("measure", MEASURES)
def test_a_text_is_like_itself_and_an_empty_one_is_like_no_other(measure):
    text = "one two three four five six"
    assert similarity(measure, text, text) == pytest.approx(1.0)
    assert similarity(measure, "", text) == 0.0
