"""READ FIRST: one whole round of reinforcement learning in one process, without pipeline, tracking or storage.

The pipeline in `pipelines/train.py` calls the same functions, in the steps `generate_rollouts`, `score_rewards` and
`train_grpo`, and stores what goes from one to the next as an artifact. Where tasks are drawn by their pass rates or
groups are replaced, they are drawn in `draw_tasks` and sampled in `generate_groups`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rlft.config import Config
from rlft.contract.base import BaseEnv
from rlft.curriculum.draw import Draw, draw_round
from rlft.curriculum.groups import sample_groups
from rlft.curriculum.rates import KeptRates, PassRates
from rlft.engines.base import Engine, Sampling
from rlft.policy import Policy
from rlft.rewards.scoring import score_rollouts
from rlft.rollout import PolicyPlayer, collect_rollouts
from rlft.training.optimizer import prepare_optimizer
from rlft.training.trainer import train_round
from rlft.types import Rewards, Rollouts, Task, TaskSet, TrainReport


@dataclass(frozen=True, slots=True)
class RoundResult:
    """Holds what a round makes, beside the policy that it changed."""

    draw: Draw
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
    rates: PassRates | None = None,
    kept: KeptRates | None = None,
) -> RoundResult:
    """Sample rollouts of the round's tasks, score them, and change `policy` in place by GRPO.

    `round` counts from 0. `reference` is the policy of the KL, needed if `training.beta` is above 0 and `policy` has no
    adapter. With `training.curriculum: pass_rate` tasks are drawn by `rates`, which `rlft.curriculum.rates.note_round`
    brings up to date after each round, and by those `kept` from earlier runs.
    """
    training, sampling = config.training, Sampling(config.rollout.temperature, config.rollout.max_completion_length)
    draw = draw_round(task_set, training, round=round, seed=config.seed, rates=rates, kept=kept)
    engine.load_policy(policy)
    by_id = task_set.by_id()

    def sample(tasks: Sequence[Task], *, first_place: int) -> Rollouts:
        return collect_rollouts(
            tasks,
            environment,
            PolicyPlayer(policy, engine),
            sampling,
            num_generations=training.num_generations,
            round=round,
            seed=config.seed,
            label="train",
            harness=config.harness,
            first_place=first_place,
        )

    sampled = sample_groups(
        draw, by_id, sample, _scorer(by_id, environment, config), batches=training.max_num_gen_batches
    )
    rollouts, rewards = sampled.rollouts, sampled.rewards
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
    return RoundResult(draw, rollouts, rewards, report)


def _scorer(by_id: Mapping[str, Task], environment: BaseEnv, config: Config) -> Callable[[Rollouts], Rewards]:
    """Return what scores rollouts of these tasks as the config says."""
    return partial(
        score_rollouts,
        tasks=by_id,
        environment=environment,
        weights=config.reward.weights,
        full=config.reward.full,
        timeout_seconds=config.reward.timeout_seconds,
        workers=config.reward.workers(),
    )
