"""Which of its own attempts a policy imitates, and what a round of that does."""

from __future__ import annotations

import pytest
import torch

from rlft.training.algorithms.rejection_sampling import choose_attempts
from rlft.training.trainer import Round, prepare_optimizer, train_round
from rlft.types import Rewards, Rollouts
from tests.factories import make_policy, make_reward, make_rollout, make_scored, make_training

TOTALS = {"a": [0.0, 1.0, 1.0], "b": [0.2, None, 0.5], "c": [0.5, 0.5, 0.5], "d": [1.0, 1.0, None], "e": [None, None]}


def chosen(totals, form, **options):
    rollouts, rewards = make_scored(totals)
    return [rollout.rollout_id for rollout in choose_attempts(rollouts, rewards, form, **options)]


def test_full_takes_every_attempt_that_is_solved():
    assert chosen(TOTALS, "full") == ["train-0-a-1", "train-0-a-2", "train-0-d-0", "train-0-d-1"]


def test_best_takes_the_first_of_the_best_and_no_group_that_says_nothing():
    # c: all equal and not solved; d: all equal, but solved; e: no score at all
    assert chosen(TOTALS, "best") == ["train-0-a-1", "train-0-b-2", "train-0-d-0"]


def test_attempts_that_were_cut_off_are_left_out_where_grpo_leaves_them_out():
    rollouts, rewards = make_scored({"a": [1.0, 0.0]}, truncated=True)
    assert len(choose_attempts(rollouts, rewards, "full")) == 1
    assert choose_attempts(rollouts, rewards, "full", leaves_out_truncated=True) == []


def test_a_round_is_a_step_of_cross_entropy_on_the_chosen_attempts():
    policy = make_policy(sharpness=3.0)
    completions, totals = [(5, 1), (6, 7, 1), (9,), (5, 9, 1)], [1.0, 1.0, 0.5, None]
    rows = [make_rollout("a", number, completion=each) for number, each in enumerate(completions)]
    with torch.no_grad():
        logprobs = [policy.model(torch.tensor([r.token_ids.tolist()])).logits[0].log_softmax(-1) for r in rows[:2]]
    taken = [each[i - 1, r.token_ids[i]] for each, r in zip(logprobs, rows, strict=False) for i in range(4, len(each))]
    settings = make_training(algorithm="rejection_sampling", max_kl=1e9)  # the tokens are not the policy's own
    prepare_optimizer(policy, settings, None)
    report = train_round(
        policy,
        Rollouts(tuple(rows)),
        Rewards(tuple(map(make_reward, rows, totals)), weights={}),
        settings,
        Round(number=0, temperature=1.0, max_completion_length=4),
    )
    assert len(taken) == 5
    assert report.metrics["policy_loss"] == pytest.approx(-sum(map(float, taken)) / 5, rel=1e-5)
    assert list(report.fates.values()) == ["trained", "trained", "filtered:not_chosen", "errored:reward"]
    assert "clip_ratio/low_mean" not in report.metrics
