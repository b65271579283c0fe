"""What all calls of steps share, and the two that most stages come down to: sample and score, and evaluate that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlops.ids import REWARDS, ROLLOUTS, step_id
from pipelines.showing import Show, unshown
from rlft.config import Config
from rlft.config.specified import unscored
from rlft.fingerprints.identity import EnvironmentFingerprints
from rlft.harness.examples import Examples
from rlft.rollout import SamplingSettings, Selection
from steps.evaluate_policy import evaluate_policy
from steps.generate_rollouts import generate_rollouts
from steps.score_rewards import score_rewards

Artifact = Any  # an output of a ZenML step; `.load()` gives the value


@dataclass(frozen=True, slots=True)
class Scored:
    """Holds the artifacts of one sampling: rollouts, and their rewards, and the `draw` of its tasks if there is one.

    `age` is how many rounds of training the policy that sampled them is behind the one that is trained on them.
    """

    rollouts: Artifact
    rewards: Artifact
    draw: Artifact | None = None
    age: int = 0


@dataclass(frozen=True, slots=True)
class Calls:
    """What all calls share: the config, the fingerprints of the environment's code, and `show`, which shows a stage."""

    config: Config
    fingerprints: EnvironmentFingerprints
    show: Show = unshown

    def sampling(self, temperature: float, **more: Any) -> SamplingSettings:
        """Return how rollouts are sampled at this temperature, with `more` settings."""
        rollout = self.config.rollout
        return SamplingSettings(
            temperature=temperature,
            max_completion_length=rollout.max_completion_length,
            batch_size=rollout.batch_size,
            engine=rollout.engine_settings(),
            harness=self.config.harness,
            seed=self.config.seed,
            **more,
        )

    def evaluation_sampling(self, examples: Examples | None = None) -> SamplingSettings:
        """Return how evaluations sample; every prompt begins with `examples`."""
        config = self.config.evaluation
        cut = {"top_p": config.top_p, "top_k": config.top_k, "min_p": config.min_p}
        return self.sampling(config.temperature, **cut, examples=examples)

    def _evaluate(
        self, policy: Artifact, tasks: Artifact, selection: Selection, sampling: SamplingSettings, name: str
    ) -> Artifact:
        scored = self._attempt(policy, tasks, selection, sampling, name)
        with self.show(f"evaluation {name}"):
            return evaluate_policy(
                tasks,
                scored.rollouts,
                scored.rewards,
                id=step_id("evaluate_policy", name),
            )

    def _attempt(
        self, policy: Artifact, tasks: Artifact, selection: Selection, sampling: SamplingSettings, name: str
    ) -> Scored:
        config = self.config
        with self.show(f"rollouts {name}", "sampling"):
            rollouts = generate_rollouts(
                tasks,
                policy,
                selection,
                sampling,
                unscored(config.environment),
                self.fingerprints.harness,
                config.policy.device,
                id=ROLLOUTS.step_id(name),
            )
        with self.show(f"scores {name}"):
            rewards = score_rewards(
                tasks, rollouts, config.environment, config.reward, self.fingerprints.reward, id=REWARDS.step_id(name)
            )
        return Scored(rollouts, rewards)
