"""Losses, gradients and advantages against TRL's own code, and what rlft does otherwise on purpose.

Bounds are narrow enough for the random samples to lie on both sides of each. The sapo temperatures are numbers that
float32 holds exactly: TRL rounds them to it, also when everything else is float64.
"""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from rlft.training.advantage import group_advantages
from tests.parity.oracle import (
    CORRECTIONS,
    GROUP,
    random_samples,
    trl_advantages,
    trl_leave_one_out,
    trl_loss,
)
from tests.rlft.training.loss_with import loss_with

CLIPPED = ["grpo", "bnpo", "dr_grpo", "dapo"]
LOSS_TYPES = [*CLIPPED, "cispo", "sapo"]
KLS = [{}, {"beta": 0.3}, {"beta": 0.3, "kl_importance_weighted": True}]
GROUPS = torch.arange(2).repeat_interleave(GROUP)
SAMPLES = {seed: random_samples(seed, empty_row=seed == 5) for seed in (4, 5, 6)}


def options_of(loss_type, **more):
    options = {"loss_type": loss_type, "epsilon": 0.2, "epsilon_high": 1.3 if loss_type == "cispo" else 0.28}
    options |= {"max_completion_length": 9, "sapo_temperature_pos": 0.75, "sapo_temperature_neg": 1.25}
    return options | more


def rlft_loss(samples, advantages, *, old_is_new=False, **options):
    new = samples.new.clone().requires_grad_()
    old = new.detach() if old_is_new else samples.old
    given = {"ref_logprobs": samples.ref, "sampling_logprobs": samples.sampling} | options
    report = loss_with(new, old, advantages, samples.mask, **given)
    report.loss.backward()
    return report, new.grad


def assert_same(samples, advantages=None, **options):
    expected = trl_loss(samples, advantages=advantages, **options)
    report, gradient = rlft_loss(samples, expected.advantages, **options)
    assert report.loss.item() == pytest.approx(expected.loss, abs=1e-9)
    torch.testing.assert_close(gradient, expected.gradient, rtol=0, atol=1e-9)
    assert gradient.abs().max() > 1e-3  # there is something to compare
    return report, expected


def per_token_advantages(seed):
    generator = torch.Generator().manual_seed(100 + seed)
    return torch.randn(SAMPLES[seed].new.shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("correction", [None, *CORRECTIONS])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_loss_and_gradient(loss_type, level, correction):
    deltas = [None, 1.5] if loss_type in CLIPPED else [None]
    for kl, delta, seed, two_dimensional in itertools.product(KLS, deltas, SAMPLES, [False, True]):
        options = options_of(loss_type, importance_sampling_level=level, delta=delta, **kl)
        if correction:
            options |= {"importance_sampling_correction": correction, "importance_sampling_max": 1.6}
            options |= {"importance_sampling_min": 0.7} if seed != 4 else {}
        assert_same(SAMPLES[seed], per_token_advantages(seed) if two_dimensional else None, **options)


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_the_first_update_where_old_is_new(loss_type, level):
    for kl in KLS:
        assert_same(SAMPLES[4], **options_of(loss_type, importance_sampling_level=level, old_is_new=True, **kl))


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("loss_type", [*CLIPPED, "cispo"])
def test_what_is_reported(loss_type, level, correction):
    options = options_of(loss_type, importance_sampling_level=level, **KLS[2])
    options |= {"importance_sampling_correction": correction, "importance_sampling_max": 1.6}
    for two_dimensional in (False, True):
        advantages = per_token_advantages(4) if two_dimensional else None
        report, expected = assert_same(SAMPLES[4], advantages, **options)
        metrics = expected.metrics
        assert report.kl / report.tokens == pytest.approx(metrics["kl"], rel=1e-6)
        high = metrics["cispo_clip_ratio" if loss_type == "cispo" else "clip_ratio/high_mean"]
        assert report.clipped_high / report.ratios == pytest.approx(high, rel=1e-6)
        low = metrics.get("clip_ratio/low_mean", 0)
        assert report.clipped_low / report.ratios == pytest.approx(low, rel=1e-6)
        assert report.clipped_high > 0
        ratio = report.importance_sampling_ratio
        for name in ("min", "mean", "max"):
            value = getattr(ratio, name)().item()
            assert value == pytest.approx(metrics[f"sampling/importance_sampling_ratio/{name}"], rel=1e-9)


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_advantages(scale):
    for seed in SAMPLES:
        samples = SAMPLES[seed]
        expected = trl_advantages(samples, scale_rewards=scale)
        found = group_advantages(samples.rewards, GROUPS, scale)
        # TRL's n / (n - 1) is a division of whole numbers, which torch does in float32: 4 / 3 is off by 4e-8
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12 if scale == "none" else 1e-7)


def test_leave_one_out_advantages():
    for seed in SAMPLES:
        samples = SAMPLES[seed]
        found = group_advantages(samples.rewards, GROUPS, "none", "leave_one_out")
        torch.testing.assert_close(found, trl_leave_one_out(samples), rtol=0, atol=1e-12)


# What rlft does otherwise, both numbers shown.


def test_equal_rewards_are_exactly_zero_where_trl_keeps_the_rounding():
    # 0.1 + 0.2 lies 5.6e-17 above 0.3: TRL divides that by a deviation of the same size plus 1e-4
    rewards = torch.tensor([0.1 + 0.2, 0.3, 0.3, 0.3, 1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    samples = replace(random_samples(0), rewards=rewards)
    theirs = trl_advantages(samples, scale_rewards="group")
    ours = group_advantages(samples.rewards, GROUPS, "group")
    assert 1e-13 < theirs[:GROUP].abs().max() < 1e-11
    assert ours[:GROUP].tolist() == [0] * GROUP
    torch.testing.assert_close(ours[GROUP:], theirs[GROUP:], rtol=0, atol=1e-7)
    assert trl_leave_one_out(samples)[:GROUP].abs().max() > 0
    assert group_advantages(samples.rewards, GROUPS, "none", "leave_one_out")[:GROUP].tolist() == [0] * GROUP


def test_equal_rewards_in_float32_teach_their_rounding_in_trl():
    # 100.1 and its neighbour differ by 7.6e-6; mean 1.9e-6 above the lower, deviation 3.8e-6: 5.7e-6 / 1.04e-4 = 0.055
    above = torch.tensor(100.1).nextafter(torch.tensor(200.0)).item()
    samples = replace(random_samples(0), rewards=torch.tensor([above, 100.1, 100.1, 100.1, 1.0, 0.0, 0.0, 0.0]))
    assert trl_advantages(samples, scale_rewards="group")[0] == pytest.approx(0.055, abs=0.03)  # the mean is rounded
    assert group_advantages(samples.rewards, GROUPS, "group")[:GROUP].tolist() == [0] * GROUP


def test_bnpo_is_normalised_over_the_whole_batch_not_over_each_part():
    whole = random_samples(3)
    expected = trl_loss(whole, **options_of("bnpo"))
    parts = [whole.rows(0, GROUP), whole.rows(GROUP, 2 * GROUP)]
    tokens = int(whole.mask.sum())
    theirs, ours = [], []
    for part, start in zip(parts, (0, GROUP), strict=True):
        advantages = expected.advantages[start : start + GROUP]
        theirs.append(trl_loss(part, advantages=advantages, **options_of("bnpo")).loss)
        ours.append(rlft_loss(part, advantages, num_items=tokens, **options_of("bnpo"))[0].loss.item())
    counts = [int(part.mask.sum()) for part in parts]
    assert counts[0] != counts[1]
    assert sum(ours) == pytest.approx(expected.loss, abs=1e-12)
    assert abs(sum(theirs) / 2 - expected.loss) > 1e-3  # the mean of the means of parts, as accumulation takes it
    # weighed by their tokens they would have been the same
    weighed = sum(loss * count for loss, count in zip(theirs, counts, strict=True)) / tokens
    assert weighed == pytest.approx(expected.loss, abs=1e-12)


def test_a_rollout_without_tokens_is_no_ratio():
    samples = SAMPLES[5]
    options = options_of("grpo", importance_sampling_level="sequence")
    options |= {"importance_sampling_correction": "sequence_truncate"}
    report, expected = assert_same(samples, **options)  # the loss is the same: both count the row in the mean
    rows = 2 * GROUP
    assert report.ratios == rows - 1
    assert report.clipped_high > 0
    assert expected.metrics["clip_ratio/high_mean"] == pytest.approx(report.clipped_high / rows)
    ratio = report.importance_sampling_ratio
    assert len(ratio) == rows - 1
    theirs = expected.metrics["sampling/importance_sampling_ratio/mean"]  # an 8th ratio of exp(0) = 1 among them
    assert theirs == pytest.approx((ratio.sum().item() + 1) / rows)


def test_a_log_probability_the_engine_did_not_record_is_not_taken_for_agreement():
    samples = random_samples(0)
    first = torch.zeros_like(samples.mask)
    first[0, 0] = True
    unknown = replace(samples, sampling=samples.sampling.masked_fill(first, math.nan))
    agreed = replace(samples, sampling=samples.sampling.where(~first, samples.old))  # a ratio of exactly 1
    options = options_of("dapo", importance_sampling_correction="token_truncate")
    theirs = trl_loss(unknown, **options)
    assert theirs.loss == pytest.approx(rlft_loss(agreed, theirs.advantages, **options)[0].loss.item(), abs=1e-12)
    assert math.isnan(rlft_loss(unknown, theirs.advantages, **options)[0].loss.item())
