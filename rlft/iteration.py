"""READ FIRST: one whole round of reinforcement learning in one process, without pipeline, tracking or storage.

The pipeline in `pipelines/train.py` calls the same functions, in the steps `generate_rollouts`, `score_rewards` and
`train_grpo`, and stores what goes from one to the next as an artifact. Where tasks are drawn by their pass rates or
groups are replaced, they are drawn in `draw_tasks` and sampled in `generate_groups`. With `training.lag: 1` it samples
the next round before it trains on this one, as `sample_round` and `train_sampled` can be called too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rlft.config.environment import HarnessConfig, RewardConfig
from rlft.config.rollout import RolloutConfig
from rlft.config.training import TrainingConfig
from rlft.engines.base import Engine
from rlft.environments.contract.base import BaseEnv
from rlft.harness.rollout import PolicyPlayer, SamplingSettings, collect_rollouts
from rlft.models.live import Policy
from rlft.rewards.scoring import score_rollouts
from rlft.tasks.curriculum import Draw, PassRates, draw_round
from rlft.training.groups import Sampled, sample_groups
from rlft.training.trainer import Round, prepare_optimizer, train_round
from rlft.types import Rewards, Rollouts, Task, TaskSet, TrainReport


class RoundConfig(Protocol):
    """What a round reads of a `rlft.config.Config`."""

    seed: int
    training: TrainingConfig
    rollout: RolloutConfig
    harness: HarnessConfig
    reward: RewardConfig

    @property
    def shares(self) -> dict[str, float] | None:
        """The shares of several environments by their names; `None` with one."""
        ...


@dataclass(frozen=True, slots=True)
class SampledRound:
    """Holds the attempts of a round, scored."""

    draw: Draw
    rollouts: Rollouts
    rewards: Rewards


@dataclass(frozen=True, slots=True)
class RoundResult(SampledRound):
    """Holds what a round makes, beside the policy that it changed."""

    report: TrainReport


def run_round(
    task_set: TaskSet,
    environment: BaseEnv,
    policy: Policy,
    engine: Engine,
    config: RoundConfig,
    *,
    round: int,
    reference: Policy | None = None,
    rates: PassRates | None = None,
) -> RoundResult:
    """Sample rollouts of the round's tasks, score them, and change `policy` in place.

    `round` counts from 0. `reference` is the policy of the KL, needed if `training.beta` is above 0 and `policy` has no
    adapter. With `training.curriculum: pass_rate` tasks are drawn by `rates`, which `curriculum.rates.note_round`
    brings up to date after each round. `training.lag` is not looked at.
    """
    sampled = sample_round(task_set, environment, policy, engine, config, round=round, rates=rates)
    report = train_sampled(policy, sampled, config, reference=reference)
    return RoundResult(sampled.draw, sampled.rollouts, sampled.rewards, report)


def sample_round(
    task_set: TaskSet,
    environment: BaseEnv,
    policy: Policy,
    engine: Engine,
    config: RoundConfig,
    *,
    round: int,
    rates: PassRates | None = None,
) -> SampledRound:
    """Sample rollouts of the round's tasks and score them; arguments are those of `run_round`."""
    training = config.training
    draw = draw_round(task_set, training, round=round, seed=config.seed, rates=rates, shares=config.shares)
    engine.load_policy(policy)
    sampled = _sample(draw, task_set.by_id(), environment, PolicyPlayer(policy, engine), config)
    return SampledRound(draw, sampled.rollouts, sampled.rewards)


def train_sampled(
    policy: Policy, sampled: SampledRound, config: RoundConfig, *, reference: Policy | None = None, age: int = 0
) -> TrainReport:
    """Change `policy` in place on a round that it sampled itself, or did `age` rounds of training ago.

    `reference` is as in `run_round`.
    """
    training = config.training
    prepare_optimizer(policy, training, None)
    return train_round(
        policy,
        sampled.rollouts,
        sampled.rewards,
        training,
        Round(
            number=sampled.draw.round,
            temperature=config.rollout.temperature,
            max_completion_length=config.rollout.max_completion_length,
            age=age,
        ),
        reference=reference,
    )


def _sample(
    draw: Draw, tasks: Mapping[str, Task], environment: BaseEnv, player: PolicyPlayer, config: RoundConfig
) -> Sampled:
    """Sample and score the groups of a round, with others in place of those without variance."""
    sampling = SamplingSettings(
        temperature=config.rollout.temperature,
        max_completion_length=config.rollout.max_completion_length,
        seed=config.seed,
        harness=config.harness,
    )

    def sample(drawn: Sequence[Task], *, first_place: int) -> Rollouts:
        return collect_rollouts(
            drawn,
            environment,
            player,
            sampling,
            num_generations=config.training.num_generations,
            round=draw.round,
            label="train",
            first_place=first_place,
        )

    def score(rollouts: Rollouts) -> Rewards:
        return score_rollouts(rollouts, tasks, environment, config.reward)

    return sample_groups(draw, tasks, sample, score, batches=config.training.max_num_gen_batches)
