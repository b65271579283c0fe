"""Tasks that one model solves and another does not."""

from __future__ import annotations

from rlft.types import EvaluationReport

_SOLVED = "accuracy"


def solved_by_one(solver: EvaluationReport, other: EvaluationReport) -> list[str]:
    """Return the tasks that `solver` solves more often than `other`, the largest difference first, then by id."""
    ours, theirs = solver.per_task.get(_SOLVED, {}), other.per_task.get(_SOLVED, {})
    gained = {task: ours[task] - theirs[task] for task in ours.keys() & theirs.keys() if ours[task] > theirs[task]}
    return sorted(gained, key=lambda task: (-gained[task], task))
