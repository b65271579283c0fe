import pytest

from rlft.gates.looks import confidence_at


def test_five_percent_are_split_over_the_looks():
    # One-sided 0.05 / 20 = 0.0025 a look, so two-sided 1 - 2 * 0.0025. One or two looks have the usual 95 %.
    assert confidence_at(20) == pytest.approx(0.995)
    assert confidence_at(1) == confidence_at(2) == 0.95
    assert confidence_at(5) == pytest.approx(0.98)
