"""Several workers train a whole round as one does: also where log-probabilities are remembered from before it.

These are needed from the second update on, and where each rollout is used again: a correction weighs by them, and the
loss's ratio is to them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rlft.models.sharding import whole
from rlft.training.batching import ALONE
from rlft.training.trainer import Round, prepare_optimizer, train_round
from rlft.types import Rewards, Rollouts
from tests.factories import make_reward, make_training
from tests.rlft.models.small_models import make_model, policy_of
from tests.rlft.training.distributed.test_torch_world import make_groups
from tests.rlft.training.distributed.together import run_together

pytestmark = pytest.mark.slow

ROUND = {"learning_rate": 1e-3, "max_kl": 1e9, "scale_rewards": "none", "updates_per_round": 3, "num_iterations": 2}
CASES: dict[str, dict[str, Any]] = {
    "no correction": {},
    "by token": {"importance_sampling_correction": "token_truncate", "importance_sampling_max": 1.5},
    "in parts": {"importance_sampling_correction": "token_truncate", "per_step_token_budget": 12},
    "by rollout": {"importance_sampling_correction": "sequence_mask"},
    "lagged": {"age": 1},
    # Nothing is remembered before the only update: what each worker encodes is noted in it. All tokens are looked at
    # afterwards, as the estimate of a few is near the limit.
    "lagged, one update": {"age": 1, "updates_per_round": 1, "num_iterations": 1, "max_kl": 0.05},
}


def train(settings: dict[str, Any], world: Any) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Train a round whose rollouts another policy has sampled; returns its metrics, and the weights after it."""
    policy = policy_of(make_model("llama", dtype=torch.float64))
    if world is not ALONE:
        policy.shard(world.mesh, "full_shard")
    age, settings = settings.get("age", 0), {key: value for key, value in settings.items() if key != "age"}
    training = make_training(**{**ROUND, **settings})
    prepare_optimizer(policy, training, None)
    pairs = [pair for group in make_groups(0) for pair in group]
    rollouts = Rollouts(tuple(rollout for rollout, _ in pairs))
    rewards = Rewards(tuple(make_reward(rollout, total) for rollout, total in pairs), weights={})
    report = train_round(
        policy,
        rollouts,
        rewards,
        training,
        Round(number=0, temperature=0.9, max_completion_length=10, age=age),
        world=world,
    )
    assert (report.stopped, report.updates) == (None, training.updates_per_round * training.num_iterations)
    return report.metrics, {name: whole(each).double().numpy() for name, each in policy.trainable().items()}


def train_all(world: Any) -> dict[str, Any]:
    return {name: train(settings, world) for name, settings in CASES.items()}


@pytest.fixture(scope="module")
def by_one() -> dict[str, Any]:
    return train_all(ALONE)


@pytest.fixture(scope="module", params=[2, 4])
def by_several(request, tmp_path_factory) -> list[dict[str, Any]]:
    """What each of several workers comes to."""
    return run_together(request.param, tmp_path_factory.mktemp("round"), train_all)


@pytest.mark.parametrize("name", CASES)
def test_several_workers_train_a_round_as_one(by_one, by_several, name):
    metrics, weights = by_one[name]
    for found, own in (each[name] for each in by_several):
        assert found == pytest.approx(metrics, rel=1e-8, abs=1e-8)
        for weight, numbers in weights.items():
            np.testing.assert_allclose(own[weight], numbers, rtol=0, atol=1e-9)


def test_the_cases_are_different_rounds(by_one):
    """A correction that did nothing would be compared with itself."""
    ends = [np.concatenate([each.ravel() for each in weights.values()]) for _, weights in by_one.values()]
    apart = {(a, b): float(np.abs(ends[a] - ends[b]).max()) for a in range(len(ends)) for b in range(a)}
    assert min(distance for pair, distance in apart.items() if pair != (2, 1)) > 1e-5
