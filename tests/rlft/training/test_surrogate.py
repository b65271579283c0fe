"""The objective of one token by value, and its gradient by the log-probability."""

import math

import pytest
import torch

from rlft.training.surrogate import cispo, clipped, sapo


def evaluate(objective, ratio, advantage, old=0.0):
    """Value, and derivative by the log-probability: d ratio / d logprob = ratio."""
    logprob = torch.tensor(math.log(ratio) + old, dtype=torch.float64, requires_grad=True)
    value = objective((logprob - old).exp(), torch.tensor(advantage, dtype=torch.float64), logprob)
    value.backward()
    return value.item(), logprob.grad.item()


# epsilon 0.2: min(ratio * A, clip(ratio, 0.8, 1.2) * A); the gradient is ratio * A unless clipped.
@pytest.mark.parametrize(
    ("ratio", "advantage", "value", "gradient"),
    [
        (1.0, 2.0, 2.0, 2.0),
        (math.e, 1.0, 1.2, 0.0),  # rose too far with a good reward: capped
        (math.e, -1.0, -math.e, -math.e),  # rose with a bad one: the full penalty stays
        (0.5, 1.0, 0.5, 0.5),  # fell with a good one: full pull back
        (0.5, -1.0, -0.8, 0.0),  # fell too far with a bad one: capped at 0.8
        (1.1, 1.0, 1.1, 1.1),
        (0.9, -1.0, -0.9, -0.9),
        (3.0, 0.0, 0.0, 0.0),
    ],
)
def test_clip(ratio, advantage, value, gradient):
    found = evaluate(lambda r, a, _: clipped(r, a, 0.2, 0.2, None), ratio, advantage)
    assert found == pytest.approx((value, gradient), abs=1e-12)
    if gradient == 0:
        assert found[1] == 0


@pytest.mark.parametrize(
    ("ratio", "advantage", "value"),
    # epsilon 0.1 below, 0.3 above: 1.25 is inside, 1.4 is capped at 1.3, 0.85 with a bad reward is capped at 0.9
    [(1.25, 1.0, 1.25), (1.4, 1.0, 1.3), (0.85, -1.0, -0.9), (0.95, -1.0, -0.95)],
)
def test_the_upper_bound_can_be_wider(ratio, advantage, value):
    assert evaluate(lambda r, a, _: clipped(r, a, 0.1, 0.3, None), ratio, advantage)[0] == pytest.approx(value)


# delta 2, epsilon 0.2: with A = -1, min(min(ratio, 2) * -1, clip(ratio, 0.8, 1.2) * -1)
@pytest.mark.parametrize(
    ("ratio", "advantage", "value", "gradient"),
    [
        (math.e, -1.0, -2.0, 0.0),  # without delta: -e, and a gradient of -e
        (1.5, -1.0, -1.5, -1.5),  # between 1.2 and delta nothing changes
        (math.e, 1.0, 1.2, 0.0),  # a good advantage is clipped earlier anyway
        (0.5, 1.0, 0.5, 0.5),
        (0.5, -1.0, -0.8, 0.0),
    ],
)
def test_delta_bounds_the_penalty(ratio, advantage, value, gradient):
    found = evaluate(lambda r, a, _: clipped(r, a, 0.2, 0.2, 2.0), ratio, advantage)
    assert found == pytest.approx((value, gradient), abs=1e-12)


# cap 2: value min(ratio, 2) * A * logprob; the ratio is held fixed, so the gradient is min(ratio, 2) * A.
@pytest.mark.parametrize(
    ("ratio", "advantage", "weight"),
    [(math.e, 1.5, 2.0), (math.e, -1.5, 2.0), (0.5, 1.5, 0.5), (0.01, -1.0, 0.01), (1.0, 1.0, 1.0)],
)
def test_cispo_caps_the_weight_and_keeps_the_gradient(ratio, advantage, weight):
    logprob = math.log(ratio) - 3
    found = evaluate(lambda r, a, x: cispo(r, a, x, cap=2.0), ratio, advantage, old=-3.0)
    assert found == pytest.approx((weight * advantage * logprob, weight * advantage), abs=1e-12)


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
    found = evaluate(lambda r, a, _: sapo(r, a, 1.0, 2.0), ratio, advantage)
    assert found == pytest.approx((value, gradient), abs=1e-12)


@pytest.mark.parametrize("temperatures", [(0.0, 1.0), (1.0, -1.0), (math.nan, 1.0)])
def test_a_sapo_temperature_is_above_0(temperatures):
    with pytest.raises(ValueError, match="above 0"):
        sapo(torch.ones(1, 1), torch.ones(1, 1), *temperatures)
