"""Samples and validates a policy in memory as the pipeline does those of GRPO: the same tasks, seeds and reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlft.config import EnvironmentConfig, RewardConfig, Section
from rlft.contract.base import BaseEnv
from rlft.engines.base import Engine
from rlft.evaluation import evaluate_rollouts
from rlft.flops import ROLLOUT_FLOPS
from rlft.policy import Policy
from rlft.progress import Progress, silent
from rlft.rewards.by_settings import score_by
from rlft.rollout import Player, PolicyPlayer, SamplingSettings, collect_rollouts
from rlft.types import EvaluationReport, Rewards, Rollouts, Task, TaskSet


class Validation(Section):
    """Says how policies are validated: where, by which reward, sampled how and how often, and compared by what.

    Those of a control that is trained in rounds are validated after each `every` of them. `fingerprint` is that of the
    code of the environment and its reward, for cache keys.
    """

    environment: EnvironmentConfig
    reward: RewardConfig
    sampling: SamplingSettings
    num_generations: int
    metric: str
    every: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Judge:
    """Holds what a validation needs beside the policy; `metric` is `evaluation.metric`.

    `engine` samples from policies. It is `None` where a model behind an address attempts the tasks.
    """

    tasks: TaskSet
    environment: BaseEnv
    engine: Engine | None
    sampling: SamplingSettings
    reward: RewardConfig
    num_generations: int
    metric: str
    progress: Progress = silent

    @classmethod
    def of(
        cls, validation: Validation, tasks: TaskSet, environment: BaseEnv, engine: Engine | None, progress: Progress
    ) -> Judge:
        """Return what validates as the settings say."""
        sampling, reward = validation.sampling, validation.reward
        return cls(
            tasks, environment, engine, sampling, reward, validation.num_generations, validation.metric, progress
        )

    def validate(self, policy: Policy) -> tuple[EvaluationReport, float]:
        """Return the report of a policy on `validation`, and the FLOPs of sampling for it."""
        report, measured = self.validate_player(self.player_of(policy))
        return report, measured[ROLLOUT_FLOPS]

    def validate_player(self, player: Player) -> tuple[EvaluationReport, dict[str, float]]:
        """Return the report of what attempts `validation`, and what was measured meanwhile."""
        tasks = self.tasks.split("validation")
        rollouts, rewards = self.attempt(
            player, tasks, self.sampling, num_generations=self.num_generations, round=0, label="evaluation"
        )
        return evaluate_rollouts(rollouts, rewards, self.tasks)["validation"], rollouts.metrics

    def player_of(self, policy: Policy) -> PolicyPlayer:
        """Return the policy with the engine, which has loaded it."""
        assert self.engine is not None
        self.engine.load_policy(policy)
        return PolicyPlayer(policy, self.engine)

    def attempt(
        self,
        player: Player,
        tasks: Sequence[Task],
        sampling: SamplingSettings,
        *,
        num_generations: int,
        round: int,
        label: str,
    ) -> tuple[Rollouts, Rewards]:
        """Attempt tasks as the pipeline does under this label and round, and score the attempts."""
        rollouts = collect_rollouts(
            tasks,
            self.environment,
            player,
            sampling.of_tokens,
            num_generations=num_generations,
            round=round,
            seed=sampling.seed,
            label=label,
            harness=sampling.harness,
            examples=sampling.examples,
            progress=self.progress,
        )
        by_id = self.tasks.by_id()
        return rollouts, score_by(self.reward, rollouts, by_id, self.environment, progress=self.progress)
