"""The policy loss put together: its normalisation, reports, parts and masks, and what it refuses."""

import itertools
import math
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.config.training import Correction, Level
from rlft.training.loss import effective_share, engine_correction, importance_ratio, k3, mean_weight
from rlft.training.losses import LOSSES
from tests.rlft.training.loss_with import loss_with

LOSS_TYPES = list(LOSSES)
LEVELS = list(get_args(Level))
CORRECTIONS = [None, *get_args(Correction)]
KLS = [{}, {"beta": 0.2}, {"beta": 0.2, "kl_importance_weighted": True}]
COUNTS = ["tokens", "ratios", "clipped_low", "clipped_high", "kl"]


def column(*ratios):
    """Log-probabilities [rollouts, 1] that have these ratios to old ones of 0."""
    return torch.tensor(ratios, dtype=torch.float64).log()[:, None].requires_grad_()


def loss_of(logprobs, advantages, **options):
    mask = options.pop("mask", torch.ones(logprobs.shape))
    old = options.pop("old", torch.zeros_like(logprobs))
    return loss_with(logprobs, old, torch.tensor(advantages, dtype=torch.float64), mask, **options)


# Ratios are 1, so a token's loss is -A, for sapo -2 * A (4 * sigmoid(0)), for cispo A * 1.5 (its log-probability is
# -1.5); rows have 1 and 3 tokens of 4 columns; A = 2 and -1.
@pytest.mark.parametrize(
    ("loss_type", "expected"),
    [
        ("grpo", (-2 + 1) / 2),  # mean over rows of the mean over their tokens
        ("sapo", 2 * (-2 + 1) / 2),
        ("bnpo", (-2 + 3) / 4),  # sum over 4 tokens
        ("dapo", (-2 + 3) / 4),
        ("cispo", -1.5 * (-2 + 3) / 4),
        ("dr_grpo", (-2 + 3) / (2 * 10)),  # 2 rows times max_completion_length
    ],
)
def test_normalisation_by_value(loss_type, expected):
    mask = torch.tensor([[0, 1, 0, 0], [0, 1, 1, 1]])
    logprobs = torch.full((2, 4), -1.5, dtype=torch.float64)
    options = {"loss_type": loss_type, "max_completion_length": 10, "sapo_temperature_neg": 1.0}
    report = loss_of(logprobs, [2.0, -1.0], old=logprobs, mask=mask, **options)
    assert report.loss.item() == pytest.approx(expected, abs=1e-12)
    assert report.tokens == 4


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


# Two tokens with ratios 2 and 8, so 4 for the sequence; the clip is at 1.2, and bounds nothing where A = -1.
@pytest.mark.parametrize(
    ("options", "advantage", "loss"),
    [
        ({}, 1, -1.2),
        ({"epsilon_high": 0.9}, 1, -1.9),
        ({}, -1, (2 + 8) / 2),
        ({"importance_sampling_level": "sequence"}, -1, 4),  # GSPO
        ({"importance_sampling_level": "sequence", "delta": 3.0}, -1, 3),
        ({"delta": 5.0}, -1, (2 + 5) / 2),
        ({"loss_type": "cispo", "epsilon_high": 5.0}, 1, -(2 * math.log(2) + 5 * math.log(8)) / 2),
        ({"loss_type": "sapo", "sapo_temperature_pos": 3.0}, 1, -4 / 3 * (sigmoid(3 * 1) + sigmoid(3 * 7)) / 2),
    ],
)
def test_options_reach_the_objective(options, advantage, loss):
    logprobs = torch.tensor([[2.0, 8.0]], dtype=torch.float64).log()
    assert loss_of(logprobs, [advantage], **options).loss.item() == pytest.approx(loss, abs=1e-12)


def test_the_temperature_of_bad_advantages():
    # ratio 1: 4 / 2 * 1/2 * -1, negated
    assert loss_of(column(1.0), [-1.0], loss_type="sapo", sapo_temperature_neg=2.0).loss.item() == pytest.approx(1)


def test_one_advantage_per_token():
    # ratios 1: -(1 - 2 + 4) / 3; what stands outside the mask is not looked at
    advantages = [[1.0, math.nan], [-2.0, 4.0]]
    mask = torch.tensor([[1, 0], [1, 1]])
    logprobs = torch.zeros(2, 2, dtype=torch.float64)
    assert loss_of(logprobs, advantages, mask=mask).loss.item() == pytest.approx(-1)
    # grpo: -(1 + (-2 + 4) / 2) / 2, also when each rollout has one ratio
    for level in LEVELS:
        report = loss_of(logprobs, advantages, mask=mask, loss_type="grpo", importance_sampling_level=level)
        assert report.loss.item() == pytest.approx(-1)


def test_kl_is_added_to_every_token():
    # ref / new = 2: k3 = 1 - ln 2; loss -1 + 0.5 * k3, with the ratio of 3: -1.2 + 0.5 * 3 * k3
    ref = torch.tensor([[-1.0 + math.log(2)]], dtype=torch.float64)
    new = torch.tensor([[-1.0]], dtype=torch.float64)
    k3 = 1 - math.log(2)
    plain = loss_of(new, [1.0], old=new, beta=0.5, ref_logprobs=ref)
    assert (plain.loss.item(), plain.kl) == pytest.approx((-1 + 0.5 * k3, k3), abs=1e-12)
    weighted = loss_of(new, [1.0], old=new - math.log(3), beta=0.5, ref_logprobs=ref, kl_importance_weighted=True)
    assert (weighted.loss.item(), weighted.kl) == pytest.approx((-1.2 + 1.5 * k3, 3 * k3), abs=1e-12)
    assert loss_of(new, [1.0], old=new, ref_logprobs=ref).kl == 0


# Ratios of trainer and engine 2 and 5, product 10; A = 1 and ratios of 1, so that the loss is minus their mean.
@pytest.mark.parametrize(
    ("correction", "options", "loss", "ratios"),
    [
        (None, {}, -1, None),
        ("token_truncate", {}, -(2 + 3) / 2, [2, 3]),
        ("token_mask", {}, -(2 + 0) / 2, [2, 0]),
        ("sequence_truncate", {}, -3, [3]),
        ("sequence_mask", {}, 0, [0]),
        ("sequence_mask", {"importance_sampling_max": 20.0}, -10, [10]),
        ("token_truncate", {"importance_sampling_max": 4.0}, -(2 + 4) / 2, [2, 4]),
    ],
)
def test_corrections_weigh_the_objective_and_not_the_kl(correction, options, loss, ratios):
    old = torch.tensor([[-1.0, -2.0, 0.0]], dtype=torch.float64)
    sampled = old - torch.tensor([2.0, 5.0, 7.0], dtype=torch.float64).log()
    options |= {
        "importance_sampling_correction": correction,
        "sampling_logprobs": sampled,
        "mask": torch.tensor([[1, 1, 0]]),
    }
    options |= {"old": old, "beta": 0.5, "ref_logprobs": old + math.log(2)}  # adds 0.5 * (1 - ln 2)
    report = loss_of(old.clone().requires_grad_(), [1.0], **options)
    assert report.loss.item() == pytest.approx(loss + 0.5 * (1 - math.log(2)), abs=1e-12)
    found = report.importance_sampling_ratio
    assert found is None if ratios is None else found.tolist() == pytest.approx(ratios)
    assert found is None or not found.requires_grad


def test_what_counts_as_clipped():
    # Only where the clip bites: 1.5 and a good reward (high), 0.5 and a bad one (low); the masked row never.
    ratios, advantages = (1.5, 1.5, 0.5, 0.5, 1.5), [1.0, -1.0, 1.0, -1.0, 1.0]
    mask = torch.tensor([[1], [1], [1], [1], [0]])

    def counts(**options):
        report = loss_of(column(*ratios), advantages, mask=mask, **options)
        return report.clipped_low, report.clipped_high, report.ratios, report.tokens

    assert counts() == (1, 1, 4, 4)
    assert counts(epsilon_high=0.6) == (1, 0, 4, 4)
    assert counts(epsilon=0.6) == (0, 0, 4, 4)
    assert counts(loss_type="cispo", epsilon_high=1.4) == (0, 1, 4, 4)
    assert counts(loss_type="cispo", epsilon_high=1.6) == (0, 0, 4, 4)
    assert counts(loss_type="sapo") == (0, 0, 4, 4)


def test_a_sequence_is_one_ratio():
    # Rows of 3, 1 and 0 tokens with ratios 1.5, 0.5 and none: 2 ratios of 4 tokens
    mask = torch.tensor([[1, 1, 1], [0, 1, 0], [0, 0, 0]])
    logprobs = torch.tensor([[1.5] * 3, [0.5] * 3, [9.0] * 3], dtype=torch.float64).log()
    options = {"mask": mask, "importance_sampling_level": "sequence"}
    report = loss_of(logprobs, [1.0, -1.0, 1.0], **options)
    assert (report.ratios, report.clipped_low, report.clipped_high, report.tokens) == (2, 1, 1, 4)
    per_token = loss_of(logprobs, [[1.0] * 3, [-1.0] * 3, [1.0] * 3], **options)
    assert (per_token.ratios, per_token.clipped_low, per_token.clipped_high, per_token.tokens) == (4, 1, 3, 4)


def test_old_log_probabilities_may_be_the_new_ones():
    # The first update: every ratio is exactly 1, the gradient is -A / tokens
    new = torch.tensor([[-1.0, -2.0], [-3.0, -4.0]], dtype=torch.float64, requires_grad=True)
    report = loss_of(new, [2.0, -1.0], old=new.detach())
    report.loss.backward()
    assert report.loss.item() == -0.5
    assert new.grad.tolist() == [[-0.5, -0.5], [0.25, 0.25]]


def test_gradients_flow_into_logprobs_only():
    generator = torch.Generator().manual_seed(0)
    new, old, ref, sampled, advantages = (torch.randn(3, 4, generator=generator).requires_grad_() for _ in range(5))
    options = {"beta": 0.1, "kl_importance_weighted": True, "ref_logprobs": ref, "sampling_logprobs": sampled}
    options |= {"importance_sampling_correction": "token_truncate"}
    loss_with(new, old, advantages, torch.ones(3, 4), **options).loss.backward()
    assert new.grad is not None
    assert [tensor.grad for tensor in (old, ref, sampled, advantages)] == [None] * 4


def random_batch(seed, rows, width, per_token=False):
    """Log-probabilities (new, old, ref, sampled), advantages, and a mask that may leave rows and all without tokens."""
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    old = noise(rows, width) - 3
    logprobs = [old + 0.5 * noise(rows, width), old, old + noise(rows, width), old + 0.5 * noise(rows, width)]
    density = torch.rand(1, generator=generator).item()
    mask = torch.rand(rows, width, generator=generator) < density
    return logprobs, noise(rows, width) if per_token else noise(rows), mask


def run(logprobs, advantages, mask, rows=slice(None), **options):
    """Report, and gradient by the new log-probabilities."""
    new, old, ref, sampled = (tensor[rows] for tensor in logprobs)
    new = new.clone().requires_grad_()
    given = {"ref_logprobs": ref, "sampling_logprobs": sampled, "max_completion_length": 7} | options
    report = loss_with(new, old, advantages[rows], mask[rows], **given)
    report.loss.backward()
    return report, new.grad


ALL_OPTIONS = st.fixed_dictionaries(
    {
        "loss_type": st.sampled_from(LOSS_TYPES),
        "importance_sampling_level": st.sampled_from(LEVELS),
        "importance_sampling_correction": st.sampled_from(CORRECTIONS),
        "importance_sampling_max": st.sampled_from([1.5, 3.0]),
        "delta": st.sampled_from([None, 1.5]),
    }
)
BATCHES = st.builds(random_batch, st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 5), st.booleans())


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(BATCHES, ALL_OPTIONS, st.sampled_from(KLS), st.sets(st.integers(1, 5)))
def test_parts_add_up_to_the_whole(batch, options, kl, cuts):
    logprobs, advantages, mask = batch
    whole, gradient = run(*batch, **options, **kl)
    size = {"num_items": float(mask.sum()), "num_rollouts": len(mask)}
    bounds = [0, *sorted(cut for cut in cuts if cut < len(mask)), len(mask)]
    parts = [
        run(logprobs, advantages, mask, slice(*pair), **options, **kl, **size) for pair in itertools.pairwise(bounds)
    ]
    assert sum(part.loss.item() for part, _ in parts) == pytest.approx(whole.loss.item(), abs=1e-12)
    torch.testing.assert_close(torch.cat([found for _, found in parts]), gradient, rtol=0, atol=1e-12)
    for name in COUNTS:
        assert sum(getattr(part, name) for part, _ in parts) == pytest.approx(getattr(whole, name), abs=1e-9)
    if whole.importance_sampling_ratio is not None:
        ratios = torch.cat([part.importance_sampling_ratio for part, _ in parts])
        assert ratios.tolist() == whole.importance_sampling_ratio.tolist()


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(BATCHES, ALL_OPTIONS, st.sampled_from(KLS), st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -1e300]))
def test_what_is_masked_does_nothing(batch, options, kl, garbage):
    logprobs, advantages, mask = batch
    clean, gradient = run(*batch, **options, **kl)
    assert math.isfinite(clean.loss.item())
    assert (gradient[~mask] == 0).all()
    outside = ~mask if advantages.ndim == 2 else ~mask.any(-1)
    wild = [tensor.masked_fill(~mask, garbage) for tensor in logprobs]
    found, wild_gradient = run(wild, advantages.masked_fill(outside, garbage), mask, **options, **kl)
    assert found.loss.item() == clean.loss.item()
    assert torch.equal(wild_gradient, gradient)
    assert [getattr(found, name) for name in COUNTS] == [getattr(clean, name) for name in COUNTS]


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(BATCHES, ALL_OPTIONS, st.sampled_from(KLS))
def test_columns_of_padding_change_nothing(batch, options, kl):
    logprobs, advantages, mask = batch
    narrow, gradient = run(*batch, **options, **kl)
    wide = [torch.nn.functional.pad(tensor, (1, 2), value=-1.0) for tensor in (*logprobs, mask.double())]
    mask = wide.pop() > 0
    advantages = torch.nn.functional.pad(advantages, (1, 2)) if advantages.ndim == 2 else advantages
    found, wide_gradient = run(wide, advantages, mask, **options, **kl)
    assert found.loss.item() == pytest.approx(narrow.loss.item(), abs=1e-12)
    torch.testing.assert_close(wide_gradient[:, 1:-2], gradient, rtol=0, atol=1e-12)


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
@pytest.mark.parametrize("level", LEVELS)
def test_a_row_or_a_part_without_tokens_adds_nothing(loss_type, level):
    options = {"loss_type": loss_type, "importance_sampling_level": level, "max_completion_length": 10}
    new = torch.full((2, 3), -1.0, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[0, 0, 0], [0, 0, 1]])
    one = torch.ones(1, 1)
    value = -LOSSES[loss_type](**LOSSES[loss_type].example).objective(one, one, -one).item()
    divisor = {"rollouts": 2, "length": 20, "tokens": 1}[LOSSES[loss_type].divisor]  # the empty row counts in a mean
    assert loss_of(new, [5.0, 1.0], old=new, mask=mask, **options).loss.item() == pytest.approx(value / divisor)
    empty = loss_of(new, [5.0, 1.0], old=new, mask=mask * 0, **options)
    empty.loss.backward()
    assert empty.loss.item() == 0
    assert (new.grad == 0).all()
    assert [getattr(empty, name) for name in COUNTS] == [0] * 5


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"beta": 0.1}, "ref_logprobs is needed"),
        ({"importance_sampling_correction": "token_mask"}, "needs sampling_logprobs"),
        ({"loss_type": "dr_grpo"}, "DrGrpo needs max_completion_length"),
        ({"mask": torch.ones(2, 4)}, r"mask \[2, 4\] must have the shape of logprobs, \[2, 3\]"),
        ({"mask": torch.ones(3)}, r"mask \[3\] must have"),
        ({"old": torch.ones(2, 1)}, r"old_logprobs \[2, 1\] must have"),
        ({"ref_logprobs": torch.ones(3)}, r"ref_logprobs \[3\] must have"),
        ({"sampling_logprobs": torch.ones(1, 3)}, r"sampling_logprobs \[1, 3\] must have"),
        ({"advantages": torch.ones(3)}, r"one per rollout, \[2\], or per token, \[2, 3\]"),
        ({"advantages": torch.ones(2, 1)}, r"one per rollout, \[2\], or per token, \[2, 3\]"),
        ({"logprobs": torch.zeros(2)}, r"logprobs must be \[rollouts, tokens\], not \[2\]"),
    ],
)
def test_what_is_wrong_is_said(options, match):
    given = {"logprobs": torch.zeros(2, 3), "old": torch.zeros(2, 3), "advantages": torch.ones(2)}
    given |= {"mask": torch.ones(2, 3)} | options
    tensors = [given.pop(name) for name in ("logprobs", "old", "advantages", "mask")]
    with pytest.raises(ValueError, match=match):
        loss_with(*tensors, **given)


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


def test_effective_share_of_weighted_samples():
    # weights 2, 1, 1: 4^2 / (3 * 6); a common factor of e^800 changes nothing and overflows nowhere
    logs = [math.log(2), 0.0, 0.0]
    assert effective_share(logs) == pytest.approx(16 / 18)
    assert effective_share([each + 800 for each in logs]) == pytest.approx(16 / 18)
    assert effective_share([0.5] * 7) == pytest.approx(1.0)
    assert effective_share([0.0, -900.0, -900.0, -900.0]) == pytest.approx(1 / 4)


def test_tiny_weights_that_are_equal_have_a_tiny_mean():
    # Attempts that the policy would make e^-20 times as often: all equal, so that the effective share is whole.
    assert effective_share([-20.0] * 9) == pytest.approx(1.0)
    assert mean_weight([-20.0] * 9) == pytest.approx(2.061e-9, rel=1e-3)
    assert mean_weight([0.0, 1.0986122886681098]) == pytest.approx(2.0)  # of 1 and 3
    assert mean_weight([900.0]) == pytest.approx(1.0142e304, rel=1e-3)  # e^700


def test_the_mean_weight_of_attempts_of_a_near_policy_is_1():
    # Samples of N(0, 1), weighted by N(d, 1): the log weights are d x - d^2 / 2. At d = 0.5 the variance of a weight is
    # e^0.25 - 1 = 0.28, so the mean of 4,000 is 1, give or take 3 * 0.0084. At d = 6 next to none is near its mean.
    samples = torch.randn(4000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert mean_weight((0.5 * samples - 0.125).tolist()) == pytest.approx(1, abs=0.025)
    assert mean_weight((6 * samples - 18).tolist()) < 0.1


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
