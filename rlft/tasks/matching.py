"""Finds the tasks of a past run again among tasks that were read anew, whose answers or templates may be others."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from rlft.errors import TaskError
from rlft.tasks.ingest import fingerprint_tasks
from rlft.types import TaskSet


def match_tasks(stored: TaskSet, read: TaskSet) -> TaskSet:
    """Return the stored tasks as they were read now, under the ids, splits and groups that they had.

    A task is known by its id, else by what it asks (`question_key`) if one task alone asks it. Those that are gone are
    left out, and counted in the notes as `gone`. Raises TaskError if all are.
    """
    by_id, asked = read.by_id(), Counter(task.question_key for task in read.tasks)
    by_question = {
        task.question_key: task for task in read.tasks if task.question_key and asked[task.question_key] == 1
    }
    found = ((task, by_id.get(task.id) or by_question.get(task.question_key)) for task in stored.tasks)
    kept = tuple(
        replace(now, id=was.id, split=was.split, group=was.group, question_key=was.question_key)
        for was, now in found
        if now is not None
    )
    if not kept:
        raise TaskError(
            f"none of the {len(stored.tasks)} tasks of the run is among the {len(read.tasks)} of this config",
            where="tasks",
            fix="leave the section `tasks` as the run has it: then its stored tasks are used; or bring its rows back",
        )
    notes = {**read.notes, "gone": len(stored.tasks) - len(kept)}
    return TaskSet(kept, fingerprint_tasks(kept), notes)
