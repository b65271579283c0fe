"""Scores with and without the tasks that are not new to the model, by slice, and what to say of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rlft.evaluation.comparison import range_of
from rlft.evaluation.statistics import mean_interval
from rlft.tasks.contamination.overlap import ContaminationReport
from rlft.texts.blocks import level
from rlft.types import EvaluationReport, Interval

ALL = "all"
"""The name of the slice that holds every task."""


@dataclass(frozen=True, slots=True)
class CleanScore:
    """Holds the mean score of a slice's tasks: of `all` that have one, and of the `clean` ones among them.

    `exact` and `overlapping` count the other ones. `clean` is `None` where no clean task has a score.
    """

    all: Interval
    clean: Interval | None
    exact: int
    overlapping: int


def clean_scores(
    report: EvaluationReport,
    contamination: ContaminationReport,
    metric: str,
    slices: Mapping[str, Collection[str]] | None = None,
) -> dict[str, CleanScore]:
    """Return {slice: scores} in a metric of the report; slices without a scored task are left out.

    `slices` are ids of tasks by the slice's name; without any there is one slice, `all`. Raises ValueError if the
    report lacks the metric.
    """
    if metric not in report.per_task:
        raise ValueError(f"no scores for {metric!r} in the report (it has: {', '.join(sorted(report.per_task))})")
    scores = report.per_task[metric]
    chosen = {ALL: scores.keys()} if slices is None else slices
    return {
        name: _score({task: scores[task] for task in ids if task in scores}, report, contamination, metric)
        for name, ids in chosen.items()
        if any(task in scores for task in ids)
    }


def _score(
    scores: Mapping[str, float], report: EvaluationReport, contamination: ContaminationReport, metric: str
) -> CleanScore:
    known, found = range_of(metric, report.ranges), contamination.found
    clean = {task: score for task, score in scores.items() if task not in found}
    exact = sum(found[task].kind == "exact" for task in scores if task in found)
    return CleanScore(
        all=mean_interval(scores, report.groups, known),
        clean=mean_interval(clean, report.groups, known) if clean else None,
        exact=exact,
        overlapping=len(scores) - len(clean) - exact,
    )


def found_sentence(contamination: ContaminationReport, split: str) -> str:
    """Return in a sentence how many tasks of a split are among the train tasks or demonstrations."""
    counts = contamination.counts(split)
    found = counts["exact"] + counts["overlapping"]
    if not found:
        return f"None of the {counts['tasks']} tasks of `{split}` was found among the train tasks or demonstrations."
    return (
        f"Of the {counts['tasks']} tasks of `{split}`, {found} {'are' if found > 1 else 'is'} among the train tasks or "
        f"demonstrations ({counts['exact']} by the whole prompt, {counts['overlapping']} by a passage of it)."
    )


def contamination_sentence(contamination: ContaminationReport, split: str, score: CleanScore, metric: str) -> str:
    """Return in a sentence or two how many tasks of a split are not new to the model, and the score without them."""
    counts = contamination.counts(split)
    found = counts["exact"] + counts["overlapping"]
    if not found:
        return f"None of the {counts['tasks']} tasks of `{split}` was found among the train tasks or demonstrations."
    said = (
        f"Of the {counts['tasks']} tasks of `{split}`, {found} {'are' if found > 1 else 'is'} not new to the trained "
        f"model ({counts['exact']} by the whole prompt, {counts['overlapping']} by a passage of it)."
    )
    if score.clean is None:
        return f"{said} No other task has a score."
    clean = score.clean
    return (
        f"{said} On the {clean.count} clean tasks `{metric}` is {level(clean.mean, metric)} "
        f"({level(clean.low, metric)} to {level(clean.high, metric)}), on all {score.all.count} it is "
        f"{level(score.all.mean, metric)}."
    )
