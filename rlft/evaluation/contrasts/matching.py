"""Finds the tasks that several runs share: by id, else by what they ask and its answer.

The name of the environment enters the id of a task, so that another environment gives other ids to the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from rlft.types import EvaluationReport

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a task asks (`gates.task_hash`), and a hash of its right answer."""

    question: str
    answer: str


Tasks = Mapping[str, Asked]  # by id


def match(runs: Mapping[str, Tasks]) -> dict[str, dict[str, str]]:
    """Return for each run the tasks that all runs have, as {id in the first run: id in this one}.

    A task with the same id is the same if it asks the same. Another one is the same if question and answer are, and no
    other task of either run has both.
    """
    first = next(iter(runs.values()))
    found = {run: _in_other(first, tasks) for run, tasks in runs.items()}
    kept = [task for task in first if all(task in ids for ids in found.values())]
    return {run: {task: ids[task] for task in kept} for run, ids in found.items()}


def _in_other(ours: Tasks, theirs: Tasks) -> dict[str, str]:
    found = {task: task for task, asked in ours.items() if task in theirs and theirs[task].question == asked.question}
    known = _alone({task: asked for task, asked in theirs.items() if task not in found})
    left = _alone({task: asked for task, asked in ours.items() if task not in found})
    return found | {task: known[asked] for asked, task in left.items() if asked in known}


def _alone(tasks: Tasks) -> dict[Asked, str]:
    """Return {question and answer: id} of the tasks whose question and answer no other one has."""
    counts = Counter(tasks.values())
    return {asked: task for task, asked in tasks.items() if counts[asked] == 1}


def why_none(runs: Mapping[str, Tasks], split: str) -> tuple[str, str]:
    """Return why `match` finds no task of the split in runs, and what to do about it."""
    first, *others = runs
    asked = {run: {each.question for each in tasks.values()} for run, tasks in runs.items()}
    for other in others:
        if match({first: runs[first], other: runs[other]})[first]:
            continue
        common = len(asked[first] & asked[other])
        if not common:
            return f"{first} and {other} share no question of {split}", "compare runs whose `tasks` name the same data"
        shared = f"{first} and {other} share {common} of their questions of {split}"
        if not set(runs[first].values()) & set(runs[other].values()):
            fix = "`rlft rescore` scores the attempts of the one by the answers of the other; compare what comes of it"
            return f"{shared}, but with other answers", fix
        return f"{shared}, but several times in one of them", "name a column with ids in `tasks.id`, or remove rows"
    return f"no task of {split} is shared by all of these runs, though each shares some with {first}", "name fewer runs"


def renamed(report: EvaluationReport, ids: Mapping[str, str]) -> EvaluationReport:
    """Return a report with these tasks alone, {new id: id in the report}, by their new ids.

    Its `metrics` stay those of all tasks.
    """

    def of(values: Mapping[str, T]) -> dict[str, T]:
        return {new: values[old] for new, old in ids.items() if old in values}

    return replace(
        report,
        per_task={metric: of(scores) for metric, scores in report.per_task.items()},
        groups=of(report.groups),
        errors=of(report.errors),
        lengths=of(report.lengths),
    )
