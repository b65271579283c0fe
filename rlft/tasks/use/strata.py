"""Draws a sample that is even over kinds of tasks, so that what is asked most does not crowd out the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from rlft.tasks.splits import order_by_hash
from rlft.types import Task


def draw_evenly(tasks: Sequence[Task], count: int, kind: Callable[[Task], str]) -> list[Task]:
    """Return at most `count` of the tasks, in their order, as evenly over their kinds as these have tasks.

    Each kind gets the same number; what a small one does not have goes to the others. Within a kind a hash of the id
    decides, so that the same tasks are drawn again whatever else is there. Of numbers that do not divide the kinds with
    more tasks get one more.
    """
    kinds: dict[str, list[Task]] = defaultdict(list)
    for task in order_by_hash(tasks, seed=0):
        kinds[kind(task)].append(task)
    chosen, left = set[str](), count
    by_size = sorted(kinds.items(), key=lambda item: (len(item[1]), item[0]))
    for place, (_, members) in enumerate(by_size):
        taken = members[: left // (len(by_size) - place)]
        chosen |= {task.id for task in taken}
        left -= len(taken)
    return [task for task in tasks if task.id in chosen]
