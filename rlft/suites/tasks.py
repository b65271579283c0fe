"""Takes all tasks of a source as one split."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from rlft.types import Split, TaskSet


def as_one_split(tasks: TaskSet, split: Split = "test") -> TaskSet:
    """Return the same tasks, all of this split, with a fingerprint that says so."""
    fingerprint = hashlib.sha256(f"{tasks.fingerprint} as {split}".encode()).hexdigest()
    return TaskSet(tuple(replace(task, split=split) for task in tasks.tasks), fingerprint, tasks.notes)
