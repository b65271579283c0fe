"""The objective of SAPO by value, and its gradient by the log-probability."""

import math

import pytest
from pydantic import ValidationError

from rlft.training.losses.sapo import Sapo
from tests.rlft.training.losses.by_value import evaluate


# Value 4 / t * sigmoid(t * (ratio - 1)) * A, gradient 4 * s * (1 - s) * ratio * A for the sigmoid s;
# t = 1 where A > 0, else 2. sigmoid(0) = 1/2, sigmoid(ln 3) = 3/4.
@pytest.mark.parametrize(
    ("ratio", "advantage", "value", "gradient"),
    [
        (1.0, 3.0, 2 * 3, 3),  # 4 * 1/2 * 3; 4 * 1/4 * 3
        (1.0, -3.0, 1 * -3, -3),  # 4 / 2 * 1/2 * -3: another value, the same gradient
        (1 + math.log(3), 1.0, 3, 0.75 * (1 + math.log(3))),  # 4 * 3/4; 4 * 3/16
        (1 + math.log(3) / 2, -1.0, -1.5, -0.75 * (1 + math.log(3) / 2)),  # 4 / 2 * 3/4 * -1
        (1 - math.log(3) / 2, -1.0, -0.5, -0.75 * (1 - math.log(3) / 2)),  # 4 / 2 * 1/4 * -1
        (2.0, 0.0, 0.0, 0.0),
    ],
)
def test_sapo_by_hand(ratio, advantage, value, gradient):
    found = evaluate(Sapo(sapo_temperature_neg=2.0), ratio, advantage)
    assert found == pytest.approx((value, gradient), abs=1e-12)


@pytest.mark.parametrize("temperatures", [(0.0, 1.0), (1.0, -1.0), (math.nan, 1.0)])
def test_a_sapo_temperature_is_above_0(temperatures):
    with pytest.raises(ValidationError):
        Sapo(sapo_temperature_pos=temperatures[0], sapo_temperature_neg=temperatures[1])
