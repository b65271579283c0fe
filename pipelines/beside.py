"""Stages beside the comparison of arms, at the end of a run: what else it says of the trained policy.

A stage is one class: the steps that it calls, with what their results depend on, what they are estimated to sample, and
what comes of them for the summary and MLflow. A new one stands here, or in a file of its own, and in `BESIDE`.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from mlops.ids import step_id
from mlops.summary.arms import contamination_sections, text_changes
from pipelines.arms import FINAL_SPLITS, Arms, Starts
from pipelines.observer import Observer
from pipelines.rounds import Rounds
from pipelines.stages import Artifact, Stages
from rlft.evaluation.forgetting import TextBits, compare_bits, fingerprint_texts, forgetting_sentences, shipped_texts
from rlft.files import file_hash
from rlft.tasks.curriculum import Selection
from steps.evaluation import measure_forgetting
from steps.tasks import find_contamination

FROM_SCRATCH = "The policy began with random weights: there is nothing that training could have cost elsewhere."


@dataclass(frozen=True, slots=True)
class Ended:
    """Holds what a run has when its arms are evaluated; `seen` is given all that comes of a stage."""

    stages: Stages
    tasks: Artifact
    starts: Starts
    rounds: Rounds
    arms: Arms
    seen: Observer


class Beside(ABC):
    """Defines a stage. `steps` are those that it calls beside the ones of `Stages`."""

    steps: ClassVar[tuple[Any, ...]] = ()

    @abstractmethod
    def run(self, ended: Ended) -> None:
        """Call the steps, and note what they return; nothing of a stage that the config does not want."""


class SeveralAttempts(Beside):
    """Lets the start and the trained policy attempt `test` tasks several times, sampled as in training, for pass@k."""

    def run(self, ended: Ended) -> None:
        """Compare the curves of both."""
        stages, baseline = ended.stages, ended.stages.config.baseline
        if not stages.config.evaluation.pass_at_k:
            return
        selection = Selection(
            label="pass_at_k", num_generations=baseline.num_generations, count=baseline.num_tasks, splits=["test"]
        )
        sampling = stages.sampling(stages.config.rollout.temperature)
        start, trained = (
            stages.evaluate_selected(policy, ended.tasks, selection, sampling, f"pass_at_k_{name}").load()
            for name, policy in (("start", ended.starts.start), ("trained", ended.rounds.best))
        )
        ended.seen.several_attempts(start, trained)


class Contamination(Beside):
    """Finds evaluation tasks that are among what was trained on."""

    steps: ClassVar[tuple[Any, ...]] = (find_contamination,)

    def run(self, ended: Ended) -> None:
        """Note where they were found, and the trained policy's score without them."""
        config, arms, seen = ended.stages.config, ended.arms, ended.seen
        warm_start = config.warm_start
        demonstrations = file_hash(warm_start.path) if warm_start and warm_start.path else ""
        with ended.stages.show("contamination"):
            found = find_contamination(ended.tasks, FINAL_SPLITS, warm_start, demonstrations).load()
        trained, start = arms.final.load(), (arms.warm_start or arms.base).load()
        seen.summary.contamination = contamination_sections(found, trained, start, config.evaluation.metric)
        if found.found:
            overlaps = {task: dataclasses.asdict(each) for task, each in found.found.items()}
            seen.tracker.log_json("contamination.json", overlaps)


class Forgetting(Beside):
    """Measures base, warm start and trained policy on texts that have nothing to do with the task."""

    steps: ClassVar[tuple[Any, ...]] = (measure_forgetting,)

    def run(self, ended: Ended) -> None:
        """Note what training cost elsewhere."""
        config, seen = ended.stages.config, ended.seen
        if not config.evaluation.forgetting:
            return
        if config.policy.model is None:
            seen.summary.forgetting_sentences = [FROM_SCRATCH]
            return
        margin = config.evaluation.forgetting_margin
        before = self._measure(ended, ended.starts.base, "base")
        between = self._measure(ended, ended.starts.start, "warm_start") if config.warm_start else None
        after = self._measure(ended, ended.rounds.best, "trained")
        changes = compare_bits(after, before, margin)
        seen.summary.forgetting = text_changes(changes, between)
        unknown = {**after.left_out, **before.not_known}
        seen.summary.forgetting_sentences = forgetting_sentences(changes, unknown, margin)

    def _measure(self, ended: Ended, policy: Artifact, name: str) -> TextBits:
        texts, device = fingerprint_texts(shipped_texts()), ended.stages.config.policy.device
        with ended.stages.show(f"forgetting {name}", "model"):
            return measure_forgetting(policy, device, texts, id=step_id("measure_forgetting", name)).load()


BESIDE: tuple[Beside, ...] = (SeveralAttempts(), Contamination(), Forgetting())
BESIDE_STEPS = [step for stage in BESIDE for step in stage.steps]
