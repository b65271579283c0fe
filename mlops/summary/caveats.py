"""What stands beside a result in a summary: evaluation tasks that are not new, and what training cost elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from mlops.summary.sections import Change, Contamination, Mean, TextChange
from rlft.comparison import compare
from rlft.contamination import ContaminationReport, clean_scores, contamination_sentence
from rlft.forgetting import Change as BitsChange
from rlft.forgetting import TextBits
from rlft.types import Evaluation


def contamination_sections(
    found: ContaminationReport, trained: Evaluation, start: Evaluation, metric: str
) -> dict[str, Contamination]:
    """Return what was found, by split, for the splits on which the trained policy has scores in the metric."""
    return {
        split: _contamination(found, split, trained, start, metric)
        for split in found.splits
        if split in trained.splits and trained.splits[split].per_task.get(metric)
    }


def _contamination(
    found: ContaminationReport, split: str, trained: Evaluation, start: Evaluation, metric: str
) -> Contamination:
    ours, counts = trained.splits[split], found.counts(split)
    score = clean_scores(ours, found, metric)["all"]
    theirs = start.splits.get(split)
    comparable = theirs is not None and theirs.per_task.get(metric)
    difference = compare(ours, theirs, metric, without=set(found.found)) if theirs and comparable else None
    clean = score.clean
    return Contamination(
        tasks=counts["tasks"],
        exact=counts["exact"],
        overlapping=counts["overlapping"],
        clean=clean and Mean(mean=clean.mean, ci_low=clean.low, ci_high=clean.high, tasks=clean.count),
        clean_difference=difference
        and Change(
            mean=difference.difference.mean,
            ci_low=difference.low_with_errors,
            ci_high=difference.high_with_errors,
        ),
        sentence=contamination_sentence(found, split, score, metric),
    )


def text_changes(changes: Mapping[str, BitsChange], warm_start: TextBits | None) -> dict[str, TextChange]:
    """Return by text how many bits per byte the base model, the warm start and the trained model need."""
    between = {} if warm_start is None else warm_start.bits
    return {
        name: TextChange(
            before=each.before,
            warm_start=sum(between[name]) / len(between[name]) if name in between else None,
            after=each.after,
            mean=each.difference.mean,
            ci_low=each.difference.low,
            ci_high=each.difference.high,
            verdict=each.verdict,
        )
        for name, each in changes.items()
    }
