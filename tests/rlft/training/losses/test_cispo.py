"""The objective of CISPO by value, and its gradient by the log-probability."""

import math

import pytest
from pydantic import ValidationError

from rlft.training.losses.cispo import Cispo
from tests.rlft.training.losses.by_value import evaluate


# cap 2: value min(ratio, 2) * A * logprob; the ratio is held fixed, so the gradient is min(ratio, 2) * A.
@pytest.mark.parametrize(
    ("ratio", "advantage", "weight"),
    [(math.e, 1.5, 2.0), (math.e, -1.5, 2.0), (0.5, 1.5, 0.5), (0.01, -1.0, 0.01), (1.0, 1.0, 1.0)],
)
def test_cispo_caps_the_weight_and_keeps_the_gradient(ratio, advantage, weight):
    logprob = math.log(ratio) - 3
    found = evaluate(Cispo(epsilon_high=2.0), ratio, advantage, old=-3.0)
    assert found == pytest.approx((weight * advantage * logprob, weight * advantage), abs=1e-12)


@pytest.mark.parametrize("cap", [None, 0.2])
def test_the_cap_must_be_given(cap):
    with pytest.raises(ValidationError, match="must be given, 1 or more"):
        Cispo(epsilon_high=cap)
