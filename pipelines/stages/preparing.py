"""Before the first round: tasks, the audit of the reward, the policies to begin with, the warm start."""

from __future__ import annotations

from dataclasses import dataclass

from mlops.ids import step_id
from mlops.runs.starting import registry_name
from mlops.runtime.runtime import pipeline_environment
from pipelines.stages.calls import Artifact, Calls
from rlft.config import PolicyConfig
from rlft.sft.demonstrations import can_demonstrate
from rlft.types import TaskSet
from steps.ask_model import ask_model
from steps.audit_rewards import audit_rewards
from steps.ingest_tasks import ingest_tasks
from steps.initialize_policy import initialize_policy
from steps.leave_out_tasks import leave_out_tasks
from steps.warm_start_policy import warm_start_policy


@dataclass(frozen=True, slots=True)
class Preparing(Calls):
    """The stages before the first round."""

    def ingest(self, tracking_uri: str) -> Artifact:
        """Read the tasks of all splits; those from use from the MLflow at this address."""
        config = self.config
        with self.show("tasks"):
            if config.tasks.use is None:
                return ingest_tasks(config.tasks, config.environment.name)
            return ingest_tasks(
                config.tasks, config.environment.name, tracking_uri, registry_name(config), config.warm_start
            )

    def audit(self, tasks: Artifact) -> Artifact:
        """Attack the reward with wrong answers."""
        config = self.config
        prints = self.fingerprints.harness + self.fingerprints.reward  # gold completions are played with the tools
        with self.show("reward audit"):
            return audit_rewards(tasks, config.environment, config.reward, config.harness, prints, config.seed)

    def initialize(self, tasks: Artifact) -> tuple[Artifact, Artifact]:
        """Make the base policy; returns it, and which prompts it cannot read."""
        config = self.config
        with self.show("policy", "model"):
            return initialize_policy(
                tasks,
                config.policy,
                config.environment,
                config.rollout.max_completion_length,
                config.rollout.engine_settings(),
                config.harness,
                config.seed,
            )

    def leave_out(self, tasks: Artifact, prompts: Artifact) -> Artifact:
        """Take out the tasks whose prompts the base policy cannot read."""
        with self.show("tasks that fit"):
            return leave_out_tasks(tasks, prompts)

    def initialize_other(self, tasks: Artifact) -> Artifact | None:
        """Make the policy of the other model that `controls` name, before training, as it might not load or answer."""
        config, other = self.config, self.config.other_model
        if other is None:
            return None
        if other.endpoint is not None:
            with self.show("other model"):
                return ask_model(tasks, other, config.environment, self.evaluation_sampling())
        named = PolicyConfig(
            model=other.model, revision=other.revision, dtype=config.policy.dtype, device=config.policy.device
        )
        rollout, name = config.rollout, step_id("initialize_policy", "model_control")
        with self.show("other model", "model"):
            policy, _ = initialize_policy(
                tasks,
                named,
                config.environment,
                rollout.max_completion_length,
                rollout.engine_settings(),
                config.harness,
                config.seed,
                is_next=False,
                id=name,
            )
        return policy

    def supervise(self, policy: Artifact, tasks: Artifact) -> tuple[Artifact, Artifact]:
        """Fine-tune on demonstrations, the warm start; returns the policy and the report."""
        config = self.config
        assert config.warm_start is not None
        with self.show("warm start", "supervised"):
            return warm_start_policy(
                policy,
                tasks,
                config.warm_start,
                config.environment,
                self.fingerprints.harness + self.fingerprints.reward,
                config.policy.device,
                config.seed,
                config.harness.isolation,
                config.training.per_step_token_budget,
                config.training.gradient_checkpointing,
                config.shares,
                id="warm_start",
            )

    def has_demonstrations(self, tasks: TaskSet) -> bool:
        """Return whether there is anything to show: rows of the warm start's file, or an answer to a train task."""
        environment = pipeline_environment(self.config.environment)
        return can_demonstrate(self.config.warm_start, tasks.split("train"), environment)
