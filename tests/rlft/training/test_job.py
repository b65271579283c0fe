"""A round from one policy folder to the next: what is trained, and what is written of it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from rlft.models import PolicyFolder, load_policy, save_policy
from rlft.training.job import Job, train_job
from rlft.training.trainer import Round, prepare_optimizer, train_round
from tests.factories import make_policy, make_scored, make_training

SETTINGS = make_training(max_kl=1e9, updates_per_round=2)
ROUND = Round(number=4, temperature=1.0, max_completion_length=4)


@pytest.fixture
def job(tmp_path) -> Job:
    rollouts, rewards = make_scored({"t0": [1.0, 0.0, 0.5], "t1": [0.0, 1.0]})
    first = save_policy(make_policy(), tmp_path / "first", round=4)
    return Job(first, None, rollouts, rewards, SETTINGS, ROUND, tmp_path / "next")


def load(folder):
    return load_policy(folder, torch.device("cpu"))


@pytest.mark.slow
def test_the_policy_after_the_round_is_written_with_where_it_comes_from(job):
    heard = []
    report = train_job(job, load(job.policy), None, save_policy, progress=lambda done, *_, **__: heard.append(done))
    by_hand = load(job.policy)
    prepare_optimizer(by_hand, SETTINGS, job.policy.load_optimizer)
    expected = train_round(by_hand, job.rollouts, job.rewards, SETTINGS, ROUND)
    assert dataclasses.replace(report, seconds=0.0) == dataclasses.replace(expected, seconds=0.0)
    assert max(heard) == 5  # rollouts, each in one of two updates
    made = PolicyFolder(job.target)
    assert (made.metadata.stage, made.metadata.round, made.metadata.update) == ("grpo", 5, 2)
    assert made.metadata.parent == job.policy.metadata.content_hash
    for name, weight in by_hand.model.state_dict().items():
        np.testing.assert_array_equal(load(made).model.state_dict()[name].numpy(), weight.numpy())


def test_nothing_is_written_of_a_round_that_is_stopped(job):
    job = dataclasses.replace(job, training=make_training(max_kl=1e-12, learning_rate=0.1))
    report = train_job(job, load(job.policy), None, save_policy)
    assert report.stopped is not None
    assert not job.target.exists()


def test_the_age_of_rollouts_is_told(job):
    old = dataclasses.replace(job, round=ROUND.model_copy(update={"age": 1}))
    assert train_job(old, load(job.policy), None, save_policy).age == 1
