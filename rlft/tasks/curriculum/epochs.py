"""Draws train tasks in epochs, each task once before any comes again.

Of several environments each has epochs of its own, and a place in a round as often as its share says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil, gcd, lcm

import numpy as np

from rlft.types import Task, TaskSet, derive_seed


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


def tasks_by_shares(
    task_set: TaskSet, shares: Mapping[str, float], *, round: int, count: int, seed: int
) -> tuple[Task, ...]:
    """Return `count` train tasks for a round (from 0), of each environment in `shares` in proportion to its share.

    After any number of tasks, over all rounds, each environment has had its share to within one task. Its tasks come in
    epochs that each have an order of their own, and none comes twice in a round that has at most half of them. They
    follow from the arguments alone, so that a resumed run takes the tasks it would have taken.
    """
    before, turns = turns_of(shares, round * count, count)
    train = {name: [task for task in task_set.split("train") if task.environment == name] for name in shares}
    drawn = Counter(turns)
    total = sum(shares.values())
    coming = {
        # A round has fewer than two tasks more of an environment than its share, so `apart` holds one round's.
        name: iter(_stretch(train[name], before[name], drawn[name], ceil(count * share / total) + 1, name, seed))
        for name, share in shares.items()
        if drawn[name]
    }
    return tuple(next(coming[name]) for name in turns)


def turns_of(shares: Mapping[str, float], first: int, count: int) -> tuple[Counter[str], list[str]]:
    """Return how often each name had its turn in the first `first` turns, and whose the next `count` turns are.

    This is the chairman assignment of Tijdeman (1980, doi:10.1016/0012-365X(80)90269-1): of the names that may have a
    turn without getting ahead of their share, the one that would fall behind first. After any number n of turns a name
    with the share p has had n p of them to within 1 - 1 / (2 k - 2), for k names.
    """
    weights = _whole_numbers(shares)
    period = sum(weights.values())  # after which everyone has had exactly the share, and all begins again
    periods, skipped = divmod(first, period)
    had, turns = dict.fromkeys(weights, 0), list[str]()
    spare = 2 * len(weights) - 2
    for turn in range(1, skipped + count + 1):
        behind = {name: weight * turn - period * had[name] for name, weight in weights.items()}  # times the period
        may = [name for name in weights if spare * behind[name] >= period]
        name = min(may, key=lambda name: Fraction(period * (spare - 1) - spare * behind[name], weights[name]))
        had[name] += 1
        turns.append(name)
    before = Counter(turns[:skipped])
    return Counter({name: periods * weight + before[name] for name, weight in weights.items()}), turns[skipped:]


def _whole_numbers(shares: Mapping[str, float]) -> dict[str, int]:
    """Return the smallest whole numbers in these proportions; a share of 0.3 is three tenths."""
    exact = {name: Fraction(repr(share)) for name, share in shares.items()}
    common = lcm(*(each.denominator for each in exact.values()))
    whole = {name: int(each * common) for name, each in exact.items()}
    return {name: each // gcd(*whole.values()) for name, each in whole.items()}


def _stretch(train: list[Task], first: int, count: int, apart: int, name: str, seed: int) -> list[Task]:
    """Return the tasks in the places [first, first + count) of an environment's epochs, one after the other.

    The last `apart` tasks of an epoch come last in the next one, too, so that no stretch of as many has a task twice,
    if there are twice as many tasks.
    """
    epochs, found, late = -(-(first + count) // len(train)), list[int](), set[int]()
    for epoch in range(epochs):
        order = np.random.default_rng(derive_seed(seed, "epoch", name, epoch)).permutation(len(train)).tolist()
        order.sort(key=lambda place: place in late)
        late = set(order[len(order) - min(apart, len(order) // 2) :])
        if (epoch + 1) * len(train) > first:
            found += order
    begins = first - (first // len(train)) * len(train)
    return [train[place] for place in found[begins : begins + count]]
