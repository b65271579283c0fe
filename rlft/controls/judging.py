"""Samples and validates a policy in memory as the pipeline does those of GRPO: the same tasks, seeds and reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlft.config import RewardConfig
from rlft.contract.base import BaseEnv
from rlft.engines.base import Engine
from rlft.evaluation import evaluate_rollouts
from rlft.flops import ROLLOUT_FLOPS
from rlft.policy import Policy
from rlft.progress import Progress, silent
from rlft.rewards.scoring import score_rollouts
from rlft.rollout import SamplingSettings, collect_rollouts
from rlft.types import EvaluationReport, Rewards, Rollouts, Task, TaskSet


@dataclass(frozen=True, slots=True)
class Judge:
    """Holds what a validation needs beside the policy; `metric` is `evaluation.metric`."""

    tasks: TaskSet
    environment: BaseEnv
    engine: Engine
    sampling: SamplingSettings
    reward: RewardConfig
    num_generations: int
    metric: str
    progress: Progress = silent

    def validate(self, policy: Policy) -> tuple[EvaluationReport, float]:
        """Return the report of a policy on `validation`, and the FLOPs of sampling for it."""
        tasks = self.tasks.split("validation")
        rollouts, rewards = self.attempt(
            policy, tasks, self.sampling, num_generations=self.num_generations, round=0, label="evaluation"
        )
        report = evaluate_rollouts(rollouts, rewards, self.tasks)["validation"]
        return report, rollouts.metrics[ROLLOUT_FLOPS]

    def attempt(
        self,
        policy: Policy,
        tasks: Sequence[Task],
        sampling: SamplingSettings,
        *,
        num_generations: int,
        round: int,
        label: str,
    ) -> tuple[Rollouts, Rewards]:
        """Attempt tasks as the pipeline does under this label and round, and score the attempts."""
        self.engine.load_policy(policy)
        rollouts = collect_rollouts(
            tasks,
            self.environment,
            policy,
            self.engine,
            sampling.of_tokens,
            num_generations=num_generations,
            round=round,
            seed=sampling.seed,
            label=label,
            harness=sampling.harness,
            examples=sampling.examples,
            progress=self.progress,
        )
        rewards = score_rollouts(
            rollouts,
            self.tasks.by_id(),
            self.environment,
            weights=self.reward.weights,
            full=self.reward.full,
            timeout_seconds=self.reward.timeout_seconds,
            workers=self.reward.workers(),
            progress=self.progress,
        )
        return rollouts, rewards
