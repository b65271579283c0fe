"""What stands beside the result of a run: evaluation tasks that are not new, and what training cost elsewhere."""

from __future__ import annotations

import dataclasses

from mlops.record.run import Record
from mlops.summary.caveats import contamination_sections, text_changes
from pipelines.arms import FINAL_SPLITS, Arms, Starts
from pipelines.rounds_done import Rounds
from pipelines.stages import Artifact, Stages
from rlft.forgetting import compare_bits, forgetting_sentences

FROM_SCRATCH = "The policy began with random weights: there is nothing that training could have cost elsewhere."


def note_contamination(stages: Stages, tasks: Artifact, arms: Arms, record: Record) -> None:
    """Find evaluation tasks that are among what was trained on, and note the trained policy's score without them."""
    metric, found = stages.config.evaluation.metric, stages.contamination(tasks, FINAL_SPLITS).load()
    trained, start = arms.final.load(), (arms.warm_start or arms.base).load()
    record.summary.contamination = contamination_sections(found, trained, start, metric)
    if found.found:
        overlaps = {task: dataclasses.asdict(each) for task, each in found.found.items()}
        record.tracker.log_json("contamination.json", overlaps)


def note_forgetting(stages: Stages, starts: Starts, rounds: Rounds, record: Record) -> None:
    """Measure base, warm start and trained policy on texts that have nothing to do with the task, and note the cost."""
    config = stages.config
    if not config.evaluation.forgetting:
        return
    if config.policy.model is None:
        record.summary.forgetting_sentences = [FROM_SCRATCH]
        return
    margin = config.evaluation.forgetting_margin
    before = stages.forgetting(starts.base, "base").load()
    between = None if config.warm_start is None else stages.forgetting(starts.start, "warm_start").load()
    after = stages.forgetting(rounds.best, "trained").load()
    changes = compare_bits(after, before, margin)
    record.summary.forgetting = text_changes(changes, between)
    record.summary.forgetting_sentences = forgetting_sentences(changes, {**after.left_out, **before.not_known}, margin)
