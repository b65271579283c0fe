import math

import pytest
from scipy.stats import t as student

from rlft.evaluation.forgetting import TextBits, compare_bits, forgetting_sentences

BEFORE = TextBits({"code": (1.0, 2.0, 1.0, 2.0), "english": (1.0, 1.0, 1.0, 1.0), "only before": (1.0, 1.0)})
AFTER = TextBits({"code": (1.1, 2.2, 1.3, 2.2), "english": (1.01, 1.02, 1.01, 1.0), "only after": (1.0, 1.0)})


def test_the_interval_is_students_of_the_paired_differences():
    change = compare_bits(AFTER, BEFORE, 0.05)["code"]
    # Differences 0.1, 0.2, 0.3, 0.2: mean 0.2, variance (0.01 + 0 + 0.01 + 0) / 3, and no skew. Two texts were measured
    # on both, so that each interval holds in 97.5 %.
    half = student.ppf(0.9875, 3) * math.sqrt(0.02 / 3 / 4)
    found = change.difference
    assert (found.mean, found.low, found.high) == pytest.approx((0.2, 0.2 - half, 0.2 + half))
    assert (change.before, change.after, found.count) == (1.5, pytest.approx(1.7), 4)


@pytest.mark.parametrize(("margin", "verdict"), [(0.01, "cost"), (0.05, "open"), (0.45, "kept")])
def test_the_whole_interval_decides(margin, verdict):
    # 0.2 +- 0.1705: from 0.0295 to 0.3705.
    assert compare_bits(AFTER, BEFORE, margin)["code"].verdict == verdict


def test_a_cost_that_few_paragraphs_have_is_kept_on_these_alone():
    # One paragraph in ten costs 0.5, so 0.05 in the mean; eight may have none of these. `kept` is said of the eight.
    lucky = TextBits({"code": (1.001, 0.999, 1.002, 1.0, 0.998, 1.001, 1.0, 0.999)})
    changes = compare_bits(lucky, TextBits({"code": (1.0,) * 8}), 0.05)
    assert changes["code"].verdict == "kept"
    assert forgetting_sentences(changes, {}, 0.05)[0].startswith("On these paragraphs")
    # Skew against `cost`: a single bad paragraph makes the mean 0.1, and is no proof for other texts of this kind.
    one_bad = TextBits({"code": (1.8, *(1.0,) * 7)})
    assert compare_bits(one_bad, TextBits({"code": (1.0,) * 8}), 0.05)["code"].verdict == "open"


def test_sentences():
    changes = compare_bits(AFTER, BEFORE, 0.02)
    assert forgetting_sentences(changes, {"german": "no \u00e4", "spanish": "no \u00e4"}, 0.02) == [
        "Training cost 0.200 bits per byte (0.029 to 0.371) on `code`, from 1.500 to 1.700: more than the margin of "
        "0.02.",
        "Whether training cost more than 0.02 bits per byte on `english` is open: +0.010 (-0.007 to +0.027).",
        "Nothing is known about `german`, `spanish`: no \u00e4.",
    ]
    assert forgetting_sentences(compare_bits(AFTER, BEFORE, 0.5), {}, 0.5) == [
        "On these paragraphs training cost less than the margin of 0.5 bits per byte: `code` (worst paragraph +0.300), "
        "`english` (worst paragraph +0.020)."
    ]


def test_what_cannot_be_compared():
    with pytest.raises(ValueError, match="1 and 4 paragraphs"):
        compare_bits(TextBits({"code": (1.0,)}), BEFORE, 0.05)
    with pytest.raises(ValueError, match="1 and 1 paragraphs"):
        compare_bits(TextBits({"code": (1.0,)}), TextBits({"code": (1.0,)}), 0.05)
    assert compare_bits(TextBits({}), BEFORE, 0.05) == {}


def test_nothing_is_said_of_a_text_that_the_model_predicts_no_better_than_bytes_at_random():
    # A byte of 256 that are equally likely takes 8 bits.
    before = TextBits({"code": (8.0, 8.0), "english": (7.9, 7.9)}, {"german": "no ä"})
    changes = compare_bits(TextBits({"code": (2.0, 2.1), "english": (9.0, 9.1)}), before, 0.05)
    assert list(changes) == ["english"]  # what it could predict and has lost is a cost
    assert list(before.not_known) == ["german", "code"]
