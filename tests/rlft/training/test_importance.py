"""Importance ratios by value, at both levels, and every correction within its bounds."""

import math

import pytest
import torch

from rlft.training.loss import effective_share, engine_correction, importance_ratio, mean_weight

MASK = torch.tensor([[True, True, False], [False, True, True], [False, False, False]])
OLD = torch.tensor([[-1.0, -2.0, math.nan], [-math.inf, -3.0, -4.0], [math.nan, 7.0, 0.0]], dtype=torch.float64)


def shifted(*ratios):
    """Log-probabilities with these ratios to OLD."""
    return OLD + torch.tensor(ratios, dtype=torch.float64).log()


def test_ratios_of_tokens():
    new = shifted([2, 8, 5], [5, 0.5, 1], [5, 5, 5]).requires_grad_()
    ratio = importance_ratio(new, OLD, MASK)
    torch.testing.assert_close(ratio, torch.tensor([[2, 8, 1], [1, 0.5, 1], [1, 1, 1]], dtype=torch.float64))
    ratio.sum().backward()  # d ratio / d logprob = ratio, and nothing outside the mask
    torch.testing.assert_close(new.grad, torch.tensor([[2, 8, 0], [0, 0.5, 1], [0, 0, 0]], dtype=torch.float64))


def test_the_ratio_of_a_sequence_is_the_geometric_mean():
    # (2 * 8) ** (1/2) = 4; (0.5 * 1) ** (1/2); nothing: 1. Each of two tokens has half of the gradient.
    new = shifted([2, 8, 5], [5, 0.5, 1], [5, 5, 5]).requires_grad_()
    ratio = importance_ratio(new, OLD, MASK, "sequence")
    root = math.sqrt(0.5)
    torch.testing.assert_close(ratio, torch.tensor([[4], [root], [1]], dtype=torch.float64))
    ratio.sum().backward()
    expected = torch.tensor([[2, 2, 0], [0, root / 2, root / 2], [0, 0, 0]], dtype=torch.float64)
    torch.testing.assert_close(new.grad, expected)


def test_the_old_policy_gets_no_gradient():
    new = OLD.clone().requires_grad_()
    ratio = importance_ratio(new, new, MASK)  # forgotten detach
    ratio.sum().backward()
    assert new.grad.tolist() == MASK.double().tolist()


BOUNDS = {"minimum": None, "maximum": 3.0}


# Ratios 2 and 5 in the first row, 0.5 and 1 in the second, none in the third; the products are 10, 0.5 and 1.
@pytest.mark.parametrize(
    ("correction", "bounds", "expected"),
    [
        ("token_truncate", {}, [[2, 3], [0.5, 1]]),
        ("token_truncate", {"minimum": 0.8}, [[2, 3], [0.8, 1]]),
        ("token_truncate", {"minimum": 0.8, "maximum": None}, [[2, 5], [0.8, 1]]),
        ("token_mask", {}, [[2, 0], [0.5, 1]]),
        ("token_mask", {"minimum": 0.8}, [[2, 0], [0, 1]]),
        ("token_mask", {"minimum": 1.0, "maximum": None}, [[2, 5], [0, 1]]),  # a bound itself is within
        ("sequence_truncate", {}, [[3], [0.5], [1]]),
        ("sequence_truncate", {"minimum": 0.8, "maximum": 20.0}, [[10], [0.8], [1]]),
        ("sequence_mask", {}, [[0], [0.5], [1]]),
        ("sequence_mask", {"minimum": 0.8, "maximum": 20.0}, [[10], [0], [1]]),
    ],
)
def test_corrections_by_value(correction, bounds, expected):
    sampled = shifted([1 / 2, 1 / 5, 9], [9, 1 / 0.5, 1], [9, 9, 9])  # old / sampled is 2, 5, 0.5, 1
    found = engine_correction(OLD.clone().requires_grad_(), sampled, MASK, correction, **(BOUNDS | bounds))
    assert not found.requires_grad
    assert found.isfinite().all()
    if correction.startswith("token"):
        found = torch.stack([found[0, :2], found[1, 1:]])
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_equal_log_probabilities_need_no_correction():
    assert (engine_correction(OLD, OLD, MASK, "sequence_mask", minimum=0.99, maximum=1.01) == 1).all()


@pytest.mark.parametrize("correction", ["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"])
def test_an_unknown_log_probability_is_not_hidden(correction):
    sampled = OLD.masked_fill(torch.tensor([[True, False, False]] + [[False] * 3] * 2), math.nan)
    found = engine_correction(OLD, sampled, MASK, correction, **BOUNDS)
    assert found[0, 0].isnan()
    assert found[1:].isfinite().all()


@pytest.mark.parametrize(
    ("correction", "bounds", "match"),
    [
        ("truncate", {}, "use one of token_truncate, token_mask, sequence_truncate, sequence_mask"),
        ("token_truncate", {"maximum": None}, "give importance_sampling_max"),
        ("token_mask", {"minimum": 3.0}, "importance_sampling_min=3 must be below importance_sampling_max=3"),
    ],
)
def test_bounds_that_bound_nothing(correction, bounds, match):
    with pytest.raises(ValueError, match=match):
        engine_correction(OLD, OLD, MASK, correction, **(BOUNDS | bounds))


def test_an_unknown_level():
    with pytest.raises(ValueError, match="use one of token, sequence"):
        importance_ratio(OLD, OLD, MASK, "rollout")


def test_effective_share_of_weighted_samples():
    # weights 2, 1, 1: 4^2 / (3 * 6); a common factor of e^800 changes nothing and overflows nowhere
    logs = [math.log(2), 0.0, 0.0]
    assert effective_share(logs) == pytest.approx(16 / 18)
    assert effective_share([each + 800 for each in logs]) == pytest.approx(16 / 18)
    assert effective_share([0.5] * 7) == pytest.approx(1.0)
    assert effective_share([0.0, -900.0, -900.0, -900.0]) == pytest.approx(1 / 4)
    with pytest.raises(ValueError, match="no samples"):
        effective_share([])


def test_tiny_weights_that_are_equal_have_a_tiny_mean():
    # Attempts that the policy would make e^-20 times as often: all equal, so that the effective share is whole.
    assert effective_share([-20.0] * 9) == pytest.approx(1.0)
    assert mean_weight([-20.0] * 9) == pytest.approx(2.061e-9, rel=1e-3)
    assert mean_weight([0.0, 1.0986122886681098]) == pytest.approx(2.0)  # of 1 and 3
    assert mean_weight([900.0]) == pytest.approx(1.0142e304, rel=1e-3)  # e^700
    with pytest.raises(ValueError, match="no mean weight"):
        mean_weight([])


def test_the_mean_weight_of_attempts_of_a_near_policy_is_1():
    # Samples of N(0, 1), weighted by N(d, 1): the log weights are d x - d^2 / 2. At d = 0.5 the variance of a weight is
    # e^0.25 - 1 = 0.28, so the mean of 4,000 is 1, give or take 3 * 0.0084. At d = 6 next to none is near its mean.
    samples = torch.randn(4000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert mean_weight((0.5 * samples - 0.125).tolist()) == pytest.approx(1, abs=0.025)
    assert mean_weight((6 * samples - 18).tolist()) < 0.1
