"""Tells tasks that came from use by what they carry."""

from __future__ import annotations

from rlft.types import Task

TRACE, STRATUM = "trace_id", "stratum"


def is_from_use(task: Task) -> bool:
    """Return whether a task was made of a record of use, and not of a row of the source."""
    return TRACE in task.info and STRATUM in task.info
