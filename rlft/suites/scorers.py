"""What scorers from outside, such as MLflow's, say of attempts: their values, and the metrics of these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean

from rlft.slices import slices_of
from rlft.statistics import SHARE, mean_interval
from rlft.suites.measures import CellMeasures, Metrics
from rlft.types import Report, Rollouts, TaskSet

Value = bool | float | str
_WORDS = {"yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0, "pass": 1.0, "fail": 0.0}
_LONGEST = 50  # characters of a text that becomes part of a metric's name


@dataclass(frozen=True, slots=True)
class ScorerScores(Report):
    """What scorers said of attempts: {scorer: {rollout id: value}}, and why they said it.

    `errors` are {scorer: {rollout id: what went wrong}}: such an attempt has no value, which is no 0. A scorer may give
    no value for an attempt, which then stands in neither.
    """

    values: dict[str, dict[str, Value]]
    errors: dict[str, dict[str, str]] = field(default_factory=dict)
    rationales: dict[str, dict[str, str]] = field(default_factory=dict)
    seconds: float = 0.0


def as_number(value: Value) -> float | None:
    """Return a value as a number: true, `yes` and `pass` are 1, their opposites 0; `None` for other texts."""
    if isinstance(value, str):
        return _WORDS.get(value.strip().lower())
    return float(value)


def with_scores(measures: CellMeasures, scores: ScorerScores, rollouts: Rollouts, tasks: TaskSet) -> CellMeasures:
    """Return the measures with a metric `scorers/NAME` for each scorer, by split and slice, and its errors counted.

    It is a mean over tasks with its interval. A scorer with a value that is no number has `scorers/NAME/VALUE` instead,
    the share of attempts with that value.
    """
    by_id = tasks.by_id()
    splits = {}
    for split, measured in measures.splits.items():
        task_of = {row.rollout_id: row.task_id for row in rollouts if by_id[row.task_id].split == split}
        groups = {task: by_id[task].group for task in task_of.values()}
        found = _means(scores, task_of)
        errors = {name: [wrong[each] for each in task_of if each in wrong] for name, wrong in scores.errors.items()}
        valued = {name: sum(each in task_of for each in values) for name, values in scores.values.items()}
        ids = slices_of([by_id[task] for task in groups], list(measured.slices))
        slices = {
            column: {
                value: metrics | _intervals(found, groups, ids[column][value]) for value, metrics in values.items()
            }
            for column, values in measured.slices.items()
        }
        splits[split] = replace(
            measured,
            metrics=measured.metrics | _intervals(found, groups, groups.keys()),
            slices=slices,
            scorer_errors={name: len(wrong) for name, wrong in errors.items() if wrong},
            scorer_first_errors={name: wrong[0] for name, wrong in errors.items() if wrong},
            scorer_attempts=valued,
        )
    return replace(measures, splits=splits)


def _means(scores: ScorerScores, task_of: Mapping[str, str]) -> dict[str, tuple[bool, dict[str, float]]]:
    """Return {metric: (whether it is a share, {task: mean over its attempts})}."""
    found: dict[str, tuple[bool, dict[str, list[float]]]] = {}
    for name, values in scores.values.items():
        own = {rollout: value for rollout, value in values.items() if rollout in task_of}
        numbers = {rollout: as_number(value) for rollout, value in own.items()}
        if None not in numbers.values():
            kinds = {f"scorers/{name}": {rollout: number for rollout, number in numbers.items() if number is not None}}
            is_share = all(isinstance(value, bool | str) for value in own.values())
        else:
            texts = {rollout: str(value)[:_LONGEST] for rollout, value in own.items()}
            kinds = {
                f"scorers/{name}/{text}": {rollout: float(each == text) for rollout, each in texts.items()}
                for text in sorted(set(texts.values()))
            }
            is_share = True
        for metric, each in kinds.items():
            _, tasks = found.setdefault(metric, (is_share, defaultdict(list)))
            for rollout, number in each.items():
                tasks[task_of[rollout]].append(number)
    return {
        metric: (is_share, {task: fmean(values) for task, values in tasks.items()})
        for metric, (is_share, tasks) in found.items()
    }


def _intervals(
    means: Mapping[str, tuple[bool, Mapping[str, float]]], groups: Mapping[str, str], tasks: Collection[str]
) -> Metrics:
    found: Metrics = {}
    for metric, (is_share, values) in means.items():
        own = {task: value for task, value in values.items() if task in tasks}
        if own:
            found[metric] = mean_interval(own, groups, SHARE if is_share else None)
    return found
