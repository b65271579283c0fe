"""Tells tasks that came from use by what they carry."""

from __future__ import annotations

from collections.abc import Iterable

from rlft.types import Task

TRACE, STRATUM = "trace_id", "stratum"


def is_from_use(task: Task) -> bool:
    """Return whether a task was made of a record of use, and not of a row of the source."""
    return TRACE in task.info and STRATUM in task.info


def without_use(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks that were made of rows of the source, which who wrote the reward vouches for."""
    return [task for task in tasks if not is_from_use(task)]


def texts_from_use(tasks: Iterable[Task]) -> dict[str, str]:
    """Return {id: the text of its right answer, empty if it has none} of the tasks from use."""
    return {task.id: task.answer if isinstance(task.answer, str) else "" for task in tasks if is_from_use(task)}
