"""Whole optimizer steps against TRL's trainer: from rollouts and rewards to new weights.

The first step of AdamW moves a weight by rate * g / (|g| + 1e-8): the rate whatever the gradient's size, so that a
wrong sign or a missing factor in a part of the loss shows in full. Where a gradient is itself near 1e-8 its rounding
shows as well; that is why weights are compared to 1e-5 at a rate of 3e-4, and all changes together to 1e-3 of their
length.
"""

import dataclasses

import pytest
import torch

from rlft.training.losses import LOSSES
from tests.factories import save_base
from tests.parity.one_step import GROUP, by_rlft, by_trl, load, random_round, weights

pytestmark = [pytest.mark.filterwarnings("ignore:You are using 'rollout_func'"), pytest.mark.slow]
LOSS_TYPES = ["dapo", "grpo", "dr_grpo", "bnpo", "cispo", "sapo"]
RATE = 3e-4
ROUND = random_round(0)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A small Qwen3 that both load."""
    return save_base(tmp_path_factory.mktemp("base") / "model", sharpness=3.0)


def options_of(loss_type, **more):
    """Settings that both have under the same name. The norm of the gradient is 1 to 2: it is scaled down."""
    example = LOSSES[loss_type].example
    return {"loss_type": loss_type, "learning_rate": RATE, "max_grad_norm": 0.3, **example, **more}


def assert_same_change(base, theirs, ours, *, rate=RATE):
    before = weights(load(base).model)
    assert ours.keys() == theirs.keys() == before.keys()
    for name in before:
        torch.testing.assert_close(
            ours[name], theirs[name], rtol=0, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
        )
    changes = [torch.cat([(found[name] - before[name]).flatten() for name in before]) for found in (ours, theirs)]
    assert (changes[0] - changes[1]).norm() < 1e-3 * changes[1].norm()
    assert changes[1].abs().median() > 0.9 * rate  # most weights have moved


def logged(trainer, name):
    """What TRL says of each of its steps."""
    return [entry[name] for entry in trainer.state.log_history if "grad_norm" in entry]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_one_step(loss_type, temperature, base, tmp_path):
    options = options_of(loss_type)
    theirs, trainer = by_trl(base, ROUND, tmp_path, temperature=temperature, **options)
    ours, report = by_rlft(base, ROUND, temperature=temperature, **options)
    assert_same_change(base, theirs, ours)
    for name in ("grad_norm", "entropy"):
        assert report.metrics[name] == pytest.approx(*logged(trainer, name), rel=1e-4)
    assert report.metrics["grad_norm"] > 0.3


@pytest.mark.parametrize("loss_type", ["dapo", "cispo", "sapo"])
def test_two_steps_over_the_same_rollouts(loss_type, base, tmp_path):
    # at the second step ratios are not 1, some are clipped, and AdamW has a past
    options = options_of(loss_type, epsilon=0.02) if loss_type == "dapo" else options_of(loss_type)
    theirs, trainer = by_trl(base, ROUND, tmp_path, updates=2, temperature=0.7, **options)
    ours, report = by_rlft(base, ROUND, updates=2, temperature=0.7, **options)
    assert report.updates == 2
    assert_same_change(base, theirs, ours)
    if loss_type == "dapo":
        clipped = logged(trainer, "clip_ratio/region_mean")
        assert report.metrics["clip_ratio/region_mean"] == pytest.approx(sum(clipped) / 2, abs=1e-6)
        assert clipped[1] > 0


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_rate_that_falls(schedule, base, tmp_path):
    # the second of two steps is taken at half the rate
    options = options_of("dapo", lr_scheduler_type=schedule)
    theirs, trainer = by_trl(base, ROUND, tmp_path, updates=2, temperature=0.7, **options)
    ours, report = by_rlft(base, ROUND, updates=2, rounds=1, temperature=0.7, **options)
    assert_same_change(base, theirs, ours)
    assert logged(trainer, "learning_rate") == pytest.approx([RATE, RATE / 2])
    assert report.metrics["learning_rate"] == pytest.approx(0.75 * RATE)


@pytest.mark.parametrize("loss_type", ["dapo", "grpo"])
def test_tokens_of_a_tool(loss_type, base, tmp_path):
    given = random_round(1, holes=True)
    options = options_of(loss_type)
    theirs, _ = by_trl(base, given, tmp_path, temperature=0.7, **options)
    ours, _ = by_rlft(base, given, temperature=0.7, **options)
    assert_same_change(base, theirs, ours)


def with_an_equal_group():
    """The second of three groups earned the same."""
    return dataclasses.replace(ROUND, rewards=[*ROUND.rewards[:GROUP], *[1.0] * GROUP, *ROUND.rewards[2 * GROUP :]])


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "dr_grpo"])
def test_a_group_of_equal_rewards(loss_type, base, tmp_path):
    # it teaches nothing and rlft does not read it, but both count it in their means: the norm of the gradient shows it
    given = with_an_equal_group()
    options = options_of(loss_type)
    theirs, trainer = by_trl(base, given, tmp_path, temperature=0.7, **options)
    ours, report = by_rlft(base, given, temperature=0.7, **options)
    assert_same_change(base, theirs, ours)
    assert report.counts()["trained"] == 2 * GROUP
    assert report.metrics["grad_norm"] == pytest.approx(*logged(trainer, "grad_norm"), rel=1e-4)


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "dr_grpo"])
def test_completions_that_were_cut_off_are_left_out(loss_type, base, tmp_path):
    options = options_of(loss_type, mask_truncated_completions=True)
    theirs, trainer = by_trl(base, ROUND, tmp_path, temperature=0.7, **options)
    ours, report = by_rlft(base, ROUND, temperature=0.7, **options)
    assert_same_change(base, theirs, ours)
    assert report.counts()["trained"] == len(ROUND.rollouts) / 2
    assert report.metrics["grad_norm"] == pytest.approx(*logged(trainer, "grad_norm"), rel=1e-4)


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "dr_grpo"])
def test_a_reference_pulls_at_a_group_of_equal_rewards_too(loss_type, base, tmp_path):
    # at the second step the policy has left the reference, and the KL of all three groups goes into the gradient
    given, options = with_an_equal_group(), options_of(loss_type, beta=0.5)
    theirs, trainer = by_trl(base, given, tmp_path, updates=2, temperature=0.7, use_bias_correction_kl=False, **options)
    ours, report = by_rlft(base, given, updates=2, temperature=0.7, reference=load(base), **options)
    assert_same_change(base, theirs, ours)
    assert sorted(report.fates.values()) == ["trained"] * 2 * GROUP + ["trained:kl_only"] * GROUP
    assert report.metrics["kl"] == pytest.approx(sum(logged(trainer, "kl")) / 2, rel=1e-4)
    assert report.metrics["grad_norm"] == pytest.approx(sum(logged(trainer, "grad_norm")) / 2, rel=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_reference(weighted, base, tmp_path):
    # TRL's reference is the model it was given; at the second step the policy has left it. Its default is `weighted`.
    options = options_of("dapo", beta=0.5)
    theirs, trainer = by_trl(
        base, ROUND, tmp_path, updates=2, temperature=0.7, use_bias_correction_kl=weighted, **options
    )
    options |= {"kl_importance_weighted": weighted, "reference": load(base)}
    ours, report = by_rlft(base, ROUND, updates=2, temperature=0.7, **options)
    assert_same_change(base, theirs, ours)
    kls = logged(trainer, "kl")
    assert report.metrics["kl"] == pytest.approx(sum(kls) / 2, abs=1e-6)
    assert kls[1] > 1e-3


def test_in_micro_batches(base, tmp_path):
    # TRL in four of three rollouts each, rlft in parts of at most 20 tokens: the sum over tokens is that of the whole
    options = options_of("dapo")
    theirs, _ = by_trl(
        base, ROUND, tmp_path, temperature=0.7, per_device_train_batch_size=3, gradient_accumulation_steps=4, **options
    )
    ours, _ = by_rlft(base, ROUND, temperature=0.7, per_step_token_budget=20, **options)
    assert_same_change(base, theirs, ours)
