"""How alike two texts are: the numbers of the papers' formulas, by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.rewards.graders.similarity import LONGEST, MEASURES, similarity

CAT = "The cat sat on the mat", "the cat is on the mat"


@pytest.mark.parametrize(
    ("measure", "score"),
    [
        # 22 and 21 letters; the longest common subsequence has 19 ("he cat s on the mat"): 2 * 19 / 43.
        ("fuzzy_match", 38 / 43),
        # words: the cat sat on the mat / the cat is on the mat; in common the, cat, on, the, mat: 2 * 5 / 12.
        ("rouge_1", 10 / 12),
        # pairs: the cat, on the, the mat: 2 * 3 / 10.
        ("rouge_2", 6 / 10),
        # threes: on the mat: 2 * 1 / 8.
        ("rouge_3", 2 / 8),
        ("rouge_4", 0.0),
        ("rouge_5", 0.0),
        ("rouge_l", 10 / 12),
        # runs of 1 to 4 in common: 5 + 3 + 1 + 0 of 6 + 5 + 4 + 3.
        ("gleu", 9 / 18),
    ],
)
def test_the_score_is_the_formulas(measure, score):
    assert similarity(measure, *CAT) == pytest.approx(score)


def test_bleu_is_that_of_sacrebleu():
    # 13a keeps case: cat, on, the, mat of 6; on the, the mat of 5; on the mat of 4; none of 3, smoothed to 1/2 of 1/3.
    assert similarity("bleu", *CAT) == pytest.approx((4 / 6 * 2 / 5 * 1 / 4 * 1 / 6) ** 0.25)


def test_signs_of_scripts_without_spaces_are_words():
    # I like Beijing, I like Shanghai: three of five signs, in a row at the beginning
    beijing, shanghai = "\u6211\u559c\u6b22\u5317\u4eac", "\u6211\u559c\u6b22\u4e0a\u6d77"
    assert similarity("rouge_1", beijing, shanghai) == pytest.approx(3 / 5)
    assert similarity("rouge_2", beijing, shanghai) == pytest.approx(2 / 4)
    assert similarity("rouge_l", beijing, shanghai) == pytest.approx(3 / 5)
    assert similarity("gleu", beijing, shanghai) == pytest.approx((3 + 2 + 1 + 0) / (5 + 4 + 3 + 2))
    # 3 of 5, 2 of 4, 1 of 3; none of 2 fours, smoothed to 1/2 of 1/2
    assert similarity("bleu", beijing, shanghai) == pytest.approx((3 / 5 * 2 / 4 * 1 / 3 * 1 / 4) ** 0.25)


@given(text=st.text(max_size=60), other=st.text(max_size=60), measure=st.sampled_from(MEASURES))
def test_likeness_is_from_0_to_1_and_1_with_itself(text, other, measure):
    found = similarity(measure, text, other)
    assert found is not None
    assert 0 <= found <= 1


@pytest.mark.parametrize("measure", MEASURES)
def test_a_text_is_like_itself_and_an_empty_one_is_like_no_other(measure):
    text = "one two three four five six"
    assert similarity(measure, text, text) == pytest.approx(1.0)
    assert similarity(measure, "", text) == 0.0
    assert similarity(measure, "a" * (LONGEST + 1), text) is None
