"""Stages beside the comparison of arms, at the end of a run: what else it says of the trained policy.

A stage is one function, which calls its steps and gives what comes of them to the summary and MLflow, or does nothing
if the config does not want it. A new one stands here, or in a file of its own, and in `BESIDE`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

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


def several_attempts(ended: Ended) -> None:
    """Let start and trained policy attempt `test` tasks several times, sampled as in training, for pass@k."""
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


def contamination(ended: Ended) -> None:
    """Find evaluation tasks that are among what was trained on, and the trained policy's score without them."""
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


def forgetting(ended: Ended) -> None:
    """Measure base, warm start and trained policy on texts that have nothing to do with the task."""
    config, seen = ended.stages.config, ended.seen
    if not config.evaluation.forgetting:
        return
    if config.policy.model is None:
        seen.summary.forgetting_sentences = [FROM_SCRATCH]
        return
    margin = config.evaluation.forgetting_margin
    before = _measure(ended, ended.starts.base, "base")
    between = _measure(ended, ended.starts.start, "warm_start") if config.warm_start else None
    after = _measure(ended, ended.rounds.best, "trained")
    changes = compare_bits(after, before, margin)
    seen.summary.forgetting = text_changes(changes, between)
    unknown = {**after.left_out, **before.not_known}
    seen.summary.forgetting_sentences = forgetting_sentences(changes, unknown, margin)


def _measure(ended: Ended, policy: Artifact, name: str) -> TextBits:
    texts, device = fingerprint_texts(shipped_texts()), ended.stages.config.policy.device
    with ended.stages.show(f"forgetting {name}", "model"):
        return measure_forgetting(policy, device, texts, id=step_id("measure_forgetting", name)).load()


BESIDE = (several_attempts, contamination, forgetting)
BESIDE_STEPS = [find_contamination, measure_forgetting]
