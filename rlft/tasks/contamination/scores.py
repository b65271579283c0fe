"""Scores with and without the tasks that are not new to the model, and what to say of them."""

from __future__ import annotations

from dataclasses import dataclass

from rlft.evaluation.comparison import range_of
from rlft.evaluation.statistics import mean_interval
from rlft.tasks.contamination.overlap import ContaminationReport
from rlft.texts.blocks import level
from rlft.types import EvaluationReport, Interval


@dataclass(frozen=True, slots=True)
class CleanScore:
    """Holds the mean score of tasks: of `all` that have one, and of the `clean` ones among them.

    `exact` and `overlapping` count the other ones. `clean` is `None` where no clean task has a score.
    """

    all: Interval
    clean: Interval | None
    exact: int
    overlapping: int


def clean_score(report: EvaluationReport, contamination: ContaminationReport, metric: str) -> CleanScore:
    """Return the scores in a metric of the report. Raises ValueError if the report lacks it."""
    if not report.per_task.get(metric):
        raise ValueError(f"no scores for {metric!r} in the report (it has: {', '.join(sorted(report.per_task))})")
    scores, known, found = report.per_task[metric], range_of(metric, report.ranges), contamination.found
    clean = {task: score for task, score in scores.items() if task not in found}
    exact = sum(found[task].kind == "exact" for task in scores if task in found)
    return CleanScore(
        all=mean_interval(scores, report.groups, known),
        clean=mean_interval(clean, report.groups, known) if clean else None,
        exact=exact,
        overlapping=len(scores) - len(clean) - exact,
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
