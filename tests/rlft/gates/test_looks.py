import pytest

from rlft.gates.looks import Look, confidence_at, next_look, why_refused


def test_five_percent_are_split_over_the_looks():
    # One-sided 0.05 / 20 = 0.0025 a look, so two-sided 1 - 2 * 0.0025. One or two looks have the usual 95 %.
    assert confidence_at(20) == pytest.approx(0.995)
    assert confidence_at(1) == confidence_at(2) == 0.95
    assert confidence_at(5) == pytest.approx(0.98)


def test_a_look_is_refused_once_the_chance_is_spent_and_says_what_to_do():
    last = next_look(Look(19, 19 / 20), 20)
    assert (last.number, why_refused(last, 20)) == (20, None)  # 19/20 + 1/20 = 1
    assert "looked at 20 times, and promotion.looks allows 20" in str(why_refused(next_look(last, 20), 20))
    # One of 2 looks has spent half, and two of 3 the rest and more: 1/2 + 2/3.
    early = next_look(next_look(Look(1, 1 / 2), 3), 3)
    assert "less than one of 3 looks takes" in str(why_refused(early, 3))
    assert str(why_refused(early, 3)).endswith("draw a fresh gate (another tasks.seed, or new tasks)")
