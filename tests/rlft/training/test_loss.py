"""The policy losses by value, their gradients, and that parts add up."""

import math

import pytest
import torch

from rlft.training.loss import policy_loss

LOSS_TYPES = ["grpo", "bnpo", "dapo", "dr_grpo"]


def column(*ratios):
    """Log-probabilities [rollouts, 1] that have these ratios to old ones of 0."""
    return torch.tensor(ratios, dtype=torch.float64).log()[:, None].requires_grad_()


def loss_of(logprobs, advantages, **options):
    mask = options.pop("mask", torch.ones(logprobs.shape))
    old = options.pop("old", torch.zeros_like(logprobs))
    return policy_loss(logprobs, old, torch.tensor(advantages, dtype=torch.float64), mask, **options)


# One token, epsilon 0.2: the loss is -min(ratio * A, clip(ratio, 0.8, 1.2) * A), its gradient by logprob -ratio * A
# unless clipped.
@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient"),
    [
        (1.0, 2.0, -2.0, -2.0),
        (math.e, 1.0, -1.2, 0.0),  # rose too far with a good reward: capped
        (math.e, -1.0, math.e, math.e),  # rose with a bad one: the full penalty stays
        (0.5, 1.0, -0.5, -0.5),  # fell with a good one: full pull back
        (0.5, -1.0, 0.8, 0.0),  # fell too far with a bad one: capped at 0.8
        (1.1, 1.0, -1.1, -1.1),
        (0.9, -1.0, 0.9, 0.9),
        (3.0, 0.0, 0.0, 0.0),
    ],
)
def test_clip(ratio, advantage, loss, gradient):
    logprobs = column(ratio)
    report = loss_of(logprobs, [advantage])
    report.loss.backward()
    assert report.loss.item() == pytest.approx(loss, abs=1e-12)
    assert logprobs.grad.item() == pytest.approx(gradient, abs=1e-12)
    if gradient == 0:
        assert logprobs.grad.item() == 0


def test_the_upper_bound_can_be_wider():
    # epsilon 0.1 below, 0.3 above: 1.25 is inside, 1.4 is capped at 1.3, 0.5 with a bad reward is capped at 0.9
    report = loss_of(column(1.25, 1.4, 0.5), [1.0, 1.0, -1.0], epsilon=0.1, epsilon_high=0.3)
    assert report.loss.item() == pytest.approx((-1.25 - 1.3 + 0.9) / 3, abs=1e-12)
    assert (report.clipped_low, report.clipped_high) == (1, 1)


def test_what_counts_as_clipped():
    # Only where the clip bites: 1.5 and a good reward (high), 0.5 and a bad one (low); the masked row never.
    report = loss_of(
        column(1.5, 1.5, 0.5, 0.5, 1.5), [1.0, -1.0, 1.0, -1.0, 1.0], mask=torch.tensor([[1], [1], [1], [1], [0]])
    )
    assert (report.clipped_low, report.clipped_high, report.tokens) == (1, 1, 4)


# Ratios are 1, so a token's loss is -A; rows have 1 and 3 tokens of 4 columns; A = 2 and -1.
@pytest.mark.parametrize(
    ("loss_type", "expected"),
    [
        ("grpo", (-2 + 1) / 2),  # mean over rows of the mean over their tokens
        ("bnpo", (-2 + 3) / 4),  # sum over 4 tokens
        ("dapo", (-2 + 3) / 4),
        ("dr_grpo", (-2 + 3) / (2 * 10)),  # 2 rows times max_completion_length
    ],
)
def test_normalisation_by_value(loss_type, expected):
    mask = torch.tensor([[0, 1, 0, 0], [0, 1, 1, 1]])
    logprobs = torch.full((2, 4), -1.5, dtype=torch.float64)
    report = loss_of(logprobs, [2.0, -1.0], old=logprobs, mask=mask, loss_type=loss_type, max_completion_length=10)
    assert report.loss.item() == pytest.approx(expected, abs=1e-12)
    assert report.tokens == 4


def test_kl_is_k3():
    # ref - new = ln 2: k3 = 2 - ln 2 - 1 = 0.30685; loss = -1 + 0.5 * 0.30685; d k3 / d new = 1 - 2 = -1
    logprobs = torch.tensor([[-1.0]], dtype=torch.float64, requires_grad=True)
    ref = torch.tensor([[-1.0 + math.log(2)]], dtype=torch.float64)
    report = loss_of(logprobs, [1.0], old=logprobs.detach(), beta=0.5, ref_logprobs=ref)
    report.loss.backward()
    assert report.kl == pytest.approx(1 - math.log(2), abs=1e-12)
    assert report.loss.item() == pytest.approx(-1 + 0.5 * (1 - math.log(2)), abs=1e-12)
    assert logprobs.grad.item() == pytest.approx(-1 + 0.5 * -1, abs=1e-12)


def test_without_beta_there_is_no_kl():
    assert loss_of(column(1.0), [1.0], ref_logprobs=torch.tensor([[5.0]])).kl == 0


def random_batch(seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (6, 5)
    new, old, ref = (-torch.rand(shape, generator=generator, dtype=torch.float64) for _ in range(3))
    mask = torch.rand(shape, generator=generator) > 0.4
    mask[:, 2] = True
    return new, old, ref, torch.randn(6, generator=generator, dtype=torch.float64), mask


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_parts_add_up_to_the_whole(loss_type, size):
    new, old, ref, advantages, mask = random_batch()
    options = {"loss_type": loss_type, "beta": 0.1, "max_completion_length": 7, "epsilon": 0.1}
    whole_logprobs, part_logprobs = new.clone().requires_grad_(), new.clone().requires_grad_()
    whole = policy_loss(whole_logprobs, old, advantages, mask, ref_logprobs=ref, **options)
    whole.loss.backward()
    total, kl = 0.0, 0.0
    for start in range(0, 6, size):
        rows = slice(start, start + size)
        part = policy_loss(
            part_logprobs[rows],
            old[rows],
            advantages[rows],
            mask[rows],
            ref_logprobs=ref[rows],
            num_items=float(mask.sum()),
            num_rollouts=6,
            **options,
        )
        part.loss.backward()
        total, kl = total + part.loss.item(), kl + part.kl
    assert total == pytest.approx(whole.loss.item(), abs=1e-12)
    assert kl == pytest.approx(whole.kl, abs=1e-12)
    torch.testing.assert_close(part_logprobs.grad, whole_logprobs.grad, rtol=0, atol=1e-12)


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_a_masked_token_has_exactly_no_gradient(loss_type):
    new, old, ref, advantages, mask = random_batch(1)
    new.requires_grad_()
    loss = policy_loss(
        new, old, advantages, mask, loss_type=loss_type, beta=0.2, ref_logprobs=ref, max_completion_length=5
    ).loss
    loss.backward()
    assert (new.grad[~mask] == 0).all()
    assert (new.grad[mask] != 0).any()


@pytest.mark.parametrize("wild", [-200.0, -1e4, float("-inf"), float("nan")])
def test_a_wild_masked_token_does_no_harm(wild):
    # exp(ref - new) overflows at the masked place; infinity times a mask of 0 would be NaN
    new = torch.tensor([[wild, -1.0]], requires_grad=True)
    mask = torch.tensor([[False, True]])
    ref = torch.tensor([[0.0, -1.0]])
    report = policy_loss(
        new, torch.tensor([[wild, -1.0]]), torch.tensor([1.0]), mask, beta=0.1, ref_logprobs=ref, loss_type="grpo"
    )
    report.loss.backward()
    assert report.loss.item() == -1
    assert new.grad.tolist() == [[0, -1]]
    assert report.kl == 0


def test_a_row_without_tokens_adds_nothing():
    new = torch.zeros(2, 3, dtype=torch.float64)
    mask = torch.tensor([[0, 0, 0], [0, 0, 1]])
    assert loss_of(new, [5.0, 1.0], mask=mask, loss_type="grpo").loss.item() == pytest.approx(-1 / 2)
    assert loss_of(new, [5.0, 1.0], mask=mask, loss_type="dapo").loss.item() == pytest.approx(-1)
    assert loss_of(new, [5.0, 1.0], mask=mask * 0, loss_type="dapo").loss.item() == 0


def test_what_is_missing_is_said():
    with pytest.raises(ValueError, match="ref_logprobs"):
        loss_of(column(1.0), [1.0], beta=0.1)
    with pytest.raises(ValueError, match="max_completion_length"):
        loss_of(column(1.0), [1.0], loss_type="dr_grpo")
