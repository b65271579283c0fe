"""Compares the splits of tasks with those that an earlier run gave them, so that no task changes its split unseen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlft.gates.identity import task_hash
from rlft.types import Split, Task, TaskSet


@dataclass(frozen=True, slots=True)
class Move:
    """Says of a task that an earlier run had it in another split."""

    task_id: str
    before: Split
    now: Split


def find_moves(before: Mapping[Split, Sequence[str]], tasks: TaskSet) -> tuple[Move, ...]:
    """Return the tasks that are in another split than before, in their order.

    `before` is {split: hashes of its tasks (`rlft.gates.identity.task_hash`)}. Tasks that are new, or gone, have not
    moved.
    """
    was: dict[str, set[Split]] = {}
    for split, hashes in before.items():
        for each in hashes:
            was.setdefault(each, set()).add(split)
    found = ((task, was.get(task_hash(task), {task.split})) for task in tasks.tasks)
    return tuple(Move(task.id, min(splits), task.split) for task, splits in found if task.split not in splits)


def count_new(before: Mapping[Split, Sequence[str]], tasks: Sequence[Task]) -> int:
    """Return how many of the tasks were in no split before; `before` is that of `find_moves`."""
    known = {each for hashes in before.values() for each in hashes}
    return sum(task_hash(task) not in known for task in tasks)


def describe_moves(moves: Sequence[Move]) -> str:
    """Return how many tasks moved from which split to which, the most first: `200 from train to gate`."""
    ways = Counter((move.before, move.now) for move in moves)
    return ", ".join(f"{count} from {before} to {now}" for (before, now), count in ways.most_common())
