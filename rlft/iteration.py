"""READ FIRST: one whole round of reinforcement learning in one process, without pipeline, tracking or storage.

The pipeline in `pipelines/train.py` calls the same three functions, one in each of the steps `generate_rollouts`,
`score_rewards` and `train_grpo`, and stores what goes from one to the next as an artifact.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlft.config import Config
from rlft.contract.base import BaseEnv
from rlft.engines.base import Engine, Sampling
from rlft.policy import Policy
from rlft.rewards.scoring import score_rollouts
from rlft.rollout import PolicyPlayer, collect_rollouts, tasks_of_round
from rlft.training.optimizer import prepare_optimizer
from rlft.training.trainer import train_round
from rlft.types import Rewards, Rollouts, TaskSet, TrainReport


@dataclass(frozen=True, slots=True)
class RoundResult:
    """Holds what a round makes, beside the policy that it changed."""

    rollouts: Rollouts
    rewards: Rewards
    report: TrainReport


def run_round(
    task_set: TaskSet,
    environment: BaseEnv,
    policy: Policy,
    engine: Engine,
    config: Config,
    *,
    round: int,
    reference: Policy | None = None,
) -> RoundResult:
    """Sample rollouts of the round's tasks, score them, and change `policy` in place by GRPO.

    `round` counts from 0. `reference` is the policy of the KL, needed if `training.beta` is above 0 and `policy` has no
    adapter.
    """
    training, sampling = config.training, Sampling(config.rollout.temperature, config.rollout.max_completion_length)
    tasks = tasks_of_round(task_set, round=round, count=training.tasks_per_round, seed=config.seed)
    engine.load_policy(policy)
    rollouts = collect_rollouts(
        tasks,
        environment,
        PolicyPlayer(policy, engine),
        sampling,
        num_generations=training.num_generations,
        round=round,
        seed=config.seed,
        label="train",
        harness=config.harness,
    )
    rewards = score_rollouts(
        rollouts,
        {task.id: task for task in tasks},
        environment,
        weights=config.reward.weights,
        full=config.reward.full,
        timeout_seconds=config.reward.timeout_seconds,
        workers=config.reward.workers(),
    )
    prepare_optimizer(policy, training, None)
    report = train_round(
        policy,
        rollouts,
        rewards,
        training,
        round=round,
        temperature=sampling.temperature,
        max_completion_length=sampling.max_completion_length,
        reference=reference,
    )
    return RoundResult(rollouts, rewards, report)
