"""Evaluations of policies, and what stands beside them: constant answers, contamination, forgetting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlops.ids import step_id
from pipelines.stages.calls import Artifact, Calls
from rlft.files import file_hash
from rlft.forgetting import fingerprint_texts, shipped_texts
from rlft.harness.examples import Examples
from rlft.rollout import Selection
from rlft.types import Split
from steps.evaluate_constant import evaluate_constant
from steps.find_contamination import find_contamination
from steps.measure_forgetting import measure_forgetting


@dataclass(frozen=True, slots=True)
class Evaluating(Calls):
    """The stages that evaluate a policy."""

    def baseline(self, policy: Artifact, tasks: Artifact) -> Artifact:
        """Evaluate several attempts at validation tasks, sampled as training samples them."""
        config = self.config.baseline
        selection = Selection(
            label="baseline", num_generations=config.num_generations, count=config.num_tasks, splits=["validation"]
        )
        return self._evaluate(policy, tasks, selection, self.sampling(self.config.rollout.temperature), "baseline")

    def attempt_often(self, policy: Artifact, tasks: Artifact, name: str) -> Artifact:
        """Evaluate several attempts at `test` tasks, sampled as training samples them, for pass@k."""
        config = self.config.baseline
        selection = Selection(
            label="pass_at_k", num_generations=config.num_generations, count=config.num_tasks, splits=["test"]
        )
        sampling = self.sampling(self.config.rollout.temperature)
        return self._evaluate(policy, tasks, selection, sampling, f"pass_at_k_{name}")

    def evaluate(
        self, policy: Artifact, tasks: Artifact, splits: list[Split], name: str, examples: Examples | None = None
    ) -> Artifact:
        """Evaluate a policy on whole splits: every policy gets the same tasks and the same random numbers.

        It reads `examples` before each prompt.
        """
        selection = Selection(label="evaluation", num_generations=self.config.evaluation.num_generations, splits=splits)
        return self._evaluate(policy, tasks, selection, self.evaluation_sampling(examples), name)

    def constant(self, tasks: Artifact, said: Sequence[str], splits: list[Split]) -> Artifact:
        """Evaluate the best constant answer on whole splits; `said` are completions that policies gave often."""
        config = self.config
        with self.show("constant answers"):
            return evaluate_constant(
                tasks,
                list(said),
                config.environment,
                config.reward,
                config.harness,
                self.fingerprints.harness + self.fingerprints.reward,
                config.evaluation.metric,
                splits,
            )

    def contamination(self, tasks: Artifact, splits: list[Split]) -> Artifact:
        """Find the tasks of these splits that are among the train tasks and the demonstrations of a file."""
        warm_start = self.config.warm_start
        demonstrations = file_hash(warm_start.path) if warm_start and warm_start.path else ""
        with self.show("contamination"):
            return find_contamination(tasks, splits, warm_start, demonstrations)

    def forgetting(self, policy: Artifact, name: str) -> Artifact:
        """Measure how well a policy predicts texts that have nothing to do with the task."""
        texts = fingerprint_texts(shipped_texts())
        with self.show(f"forgetting {name}", "model"):
            return measure_forgetting(policy, self.config.policy.device, texts, id=step_id("measure_forgetting", name))
