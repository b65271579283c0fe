"""Draws train tasks uniformly, in epochs: each task once before any comes again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlft.engines.base import derive_seed
from rlft.types import Task, TaskSet


def tasks_of_round(task_set: TaskSet, *, round: int, count: int, seed: int) -> tuple[Task, ...]:
    """Return `count` train tasks for a round (from 0), in epochs that each have an order of their own.

    They follow from (seed, round) alone, so that a resumed run takes the tasks it would have taken. An epoch ends when
    too few tasks are left for a round: so a round never holds a task twice, unless `count` exceeds the train split.
    """
    train = task_set.split("train")
    epoch, place = divmod(round, max(len(train) // count, 1))
    order = np.random.default_rng(derive_seed(seed, "epoch", epoch)).permutation(len(train))
    chosen = np.resize(order, max(count, len(order)))[place * count : (place + 1) * count]
    return tuple(train[index] for index in chosen)


def other_tasks(task_set: TaskSet, drawn: Sequence[Task], *, round: int, count: int, seed: int) -> tuple[Task, ...]:
    """Return up to `count` train tasks that are not `drawn` in this round, in a random order of this round's own."""
    known = {task.id for task in drawn}
    others = [task for task in task_set.split("train") if task.id not in known]
    order = np.random.default_rng(derive_seed(seed, "resample", round)).permutation(len(others))
    return tuple(others[index] for index in order[:count])
