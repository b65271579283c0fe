"""The KL estimate by value, and which of its forms has the right gradient."""

import math

import pytest
import torch

from rlft.training.loss import k3

ONE = torch.tensor([[True]])


def number(value):
    return torch.tensor([[value]], dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize(
    ("quotient", "estimate", "gradient"),
    # k3 = q - ln q - 1 with q = ref / pi; its derivative by ln pi is 1 - q
    [(1.0, 0.0, 0.0), (2.0, 1 - math.log(2), -1.0), (0.5, math.log(2) - 0.5, 0.5)],
)
def test_k3_by_value(quotient, estimate, gradient):
    logprob, reference = number(-1.0), number(-1.0 + math.log(quotient))
    found = k3(logprob, reference, ONE)
    found.backward()
    assert found.item() == pytest.approx(estimate, abs=1e-12)
    assert logprob.grad.item() == pytest.approx(gradient, abs=1e-12)
    assert reference.grad is None


def test_a_weight_has_a_gradient_too():
    # ratio 3, q = 2: 3 * (1 - ln 2); derivative 3 * (1 - q) + 3 * (1 - ln 2) = -3 ln 2
    logprob = number(-1.0)
    found = k3(logprob, number(-1.0 + math.log(2)), ONE, (logprob + 1 + math.log(3)).exp())
    found.backward()
    assert found.item() == pytest.approx(3 * (1 - math.log(2)), abs=1e-12)
    assert logprob.grad.item() == pytest.approx(-3 * math.log(2), abs=1e-12)


@pytest.mark.parametrize("weighted", [True, False])
def test_only_the_weighted_estimate_is_the_reverse_kl(weighted):
    # Every action of an old policy with its probability: the expectation without sampling. With the ratio, value and
    # gradient are those of sum pi ln(pi / ref); without it, neither is.
    logits = torch.tensor([[0.3, -0.2, 1.0]], dtype=torch.float64, requires_grad=True)
    old, ref = (torch.tensor([row], dtype=torch.float64).log() for row in ([0.2, 0.5, 0.3], [0.6, 0.3, 0.1]))
    policy = logits.log_softmax(-1)
    everywhere = torch.ones(1, 3, dtype=torch.bool)
    expected_value = (old.exp() * k3(policy, ref, everywhere, (policy - old).exp() if weighted else None)).sum()
    (found,) = torch.autograd.grad(expected_value, logits, retain_graph=True)
    exact = (policy.exp() * (policy - ref)).sum()
    (gradient,) = torch.autograd.grad(exact, logits)
    assert torch.allclose(found, gradient, rtol=0, atol=1e-12) is weighted
    assert math.isclose(expected_value.item(), exact.item(), abs_tol=1e-12) is weighted


@pytest.mark.parametrize("wild", [-1e4, -math.inf, math.inf, math.nan])
def test_outside_the_mask_it_is_0(wild):
    logprobs = torch.tensor([[wild, -1.0]], dtype=torch.float64, requires_grad=True)
    found = k3(logprobs, torch.zeros(1, 2, dtype=torch.float64), torch.tensor([[False, True]]))
    found.sum().backward()
    assert found[0, 0] == 0
    assert logprobs.grad[0, 0] == 0
    assert found[0, 1].item() == pytest.approx(math.e - 2, abs=1e-12)  # q = e: e - 1 - 1
