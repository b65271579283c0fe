"""The clipped objective of one token by value, and its gradient by the log-probability."""

import math

import pytest
from pydantic import ValidationError

from rlft.training.losses.clipped import Dapo, Grpo
from tests.rlft.training.losses.by_value import evaluate


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
    found = evaluate(Dapo(), ratio, advantage)
    assert found == pytest.approx((value, gradient), abs=1e-12)
    if gradient == 0:
        assert found[1] == 0


@pytest.mark.parametrize(
    ("ratio", "advantage", "value"),
    # epsilon 0.1 below, 0.3 above: 1.25 is inside, 1.4 is capped at 1.3, 0.85 with a bad reward is capped at 0.9
    [(1.25, 1.0, 1.25), (1.4, 1.0, 1.3), (0.85, -1.0, -0.9), (0.95, -1.0, -0.95)],
)
def test_the_upper_bound_can_be_wider(ratio, advantage, value):
    assert evaluate(Dapo(epsilon=0.1, epsilon_high=0.3), ratio, advantage)[0] == pytest.approx(value)


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
    found = evaluate(Dapo(delta=2.0), ratio, advantage)
    assert found == pytest.approx((value, gradient), abs=1e-12)


def test_what_would_clip_nothing_is_refused():
    with pytest.raises(ValidationError, match=r"epsilon_high=1\.0 is added to 1, so that hardly"):
        Grpo(epsilon_high=1.0)
    with pytest.raises(ValidationError, match=r"delta=1\.3 must be above 1"):
        Dapo(epsilon=0.3, delta=1.3)
