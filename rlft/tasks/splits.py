"""Decides which task is in which split: as the file's own `split` column says, dealt by group, or by fixed shares.

A group is dealt by a hash of its name, and not by its rank among the others, so rows that are added later move none.
No prompt is in two splits, as an evaluation that shares prompts with training measures memory.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate

from rlft.config import SplitsConfig
from rlft.errors import TaskError
from rlft.evaluation.gates import identities, prompt_key, question_of
from rlft.types import SPLITS, Split, Task, TaskSet

# The order in which splits take their tasks, and in which one of them keeps a prompt that several have: splits that
# decide something come before the one that is trained on.
CLAIM_ORDER: tuple[Split, ...] = ("test", "gate", "validation", "train", "off_distribution")
DEALT_SPLITS: tuple[Split, ...] = CLAIM_ORDER[:4]
# The shares of a generator's questions that belong to each split. Counts do not enter, so that none moves a task; the
# shares are near the proportions in which configs ask for tasks, as a split draws until it has its count.
SHARES: dict[Split, Fraction] = {
    "test": Fraction(2, 12),
    "gate": Fraction(2, 12),
    "validation": Fraction(1, 12),
    "train": Fraction(7, 12),
}


def deal_group(group: str, splits: SplitsConfig, *, seed: int) -> Split:
    """Deal one group to test, gate, validation or train, with chances in the proportions of the configured counts.

    Weighted rendezvous hashing (Thaler and Ravishankar 1998, doi:10.1109/90.663936, with exponential weights): each
    split gets the time -ln(u) / count, with u in (0, 1) from sha256(seed, split, group), and the earliest one takes the
    group. It depends on seed, group and counts alone, so other rows move none, a larger count moves groups only into
    its split, and a smaller one only out of it. The sizes of splits are random, and may be 0: see `check_splits`.
    """
    return min(DEALT_SPLITS, key=lambda name: -math.log(_uniform(seed, f"{name}|{group}")) / getattr(splits, name))


def deal_tasks(tasks: Iterable[Task], splits: SplitsConfig, *, seed: int) -> list[Task]:
    """Return the tasks in their order, each with the split to which its group was dealt."""
    return [replace(task, split=deal_group(task.group, splits, seed=seed)) for task in tasks]


def own_share(group: str, *, seed: int) -> Split:
    """Return the split to which a group of a generator's questions belongs, whatever the counts: see `SHARES`."""
    place = _uniform(seed, f"drawn|{group}")
    upto = zip(SHARES, accumulate(SHARES.values()), strict=True)
    return next(name for name, end in upto if place < end)


def order_by_hash(tasks: Iterable[Task], *, seed: int) -> list[Task]:
    """Sort the tasks by a hash of seed and id, so that the first n of them are a random sample."""
    return sorted(tasks, key=lambda task: _place(seed, task.id))


def sample_tasks(tasks: Sequence[Task], limit: int | None) -> tuple[Task, ...]:
    """Return a sample of at most `limit` tasks in their order, always the same ones; `None` returns all.

    The first tasks would not do, as a file may be sorted.
    """
    chosen = {task.id for task in order_by_hash(tasks, seed=0)[:limit]}
    return tuple(task for task in tasks if task.id in chosen)


def _place(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}|{name}".encode()).digest()


def _uniform(seed: int, name: str) -> float:
    """Return a number in (0, 1), 0 and 1 left out.

    It is made of the first 52 bits of the hash, which a float holds with the half added.
    """
    return ((int.from_bytes(_place(seed, name)[:8]) >> 12) + 0.5) / 2**52


TRACE = "use_trace_id"
"""The column of `info` that a task from use (`rlft.tasks.use`) has: the id of its trace."""


def is_from_use(task: Task) -> bool:
    """Return whether a task was made of a record of use, and not of a row of the source."""
    return TRACE in task.info


def without_use(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks that were made of rows of the source, which who wrote the reward vouches for."""
    return [task for task in tasks if not is_from_use(task)]


def texts_from_use(tasks: Iterable[Task]) -> dict[str, str]:
    """Return {id: the text of its right answer, empty if it has none} of the tasks from use."""
    return {task.id: task.answer if isinstance(task.answer, str) else "" for task in tasks if is_from_use(task)}


def check_groups(tasks: Iterable[Task], where: str) -> None:
    """Raise `TaskError` if a group of the setting `group` is in two splits.

    A `split` column, an off-distribution source or a generator can put it there; dealing cannot.
    """
    seen: dict[str, Split] = {}
    for task in tasks:
        if task.group != task.question_key and seen.setdefault(task.group, task.split) != task.split:
            raise TaskError(
                f"group {task.group!r} stands in {seen[task.group]} and in {task.split}",
                where=where,
                fix="give all rows of a group the same split, or remove the setting `group` from `tasks` "
                "(and from tasks.off_distribution)",
            )


def check_splits(tasks: Iterable[Task], where: str, *, by_column: bool) -> None:
    """Raise `TaskError` if a split that every run needs has no tasks; `by_column` says who made the splits."""
    counts = Counter(task.split for task in tasks)
    empty = [name for name in reversed(DEALT_SPLITS) if not counts[name]]
    if not empty:
        return
    has = ", ".join(f"{name} {counts[name]}" for name in SPLITS if counts[name]) or "no tasks at all"
    raise TaskError(
        f"no tasks for {', '.join(empty)} (there are: {has})",
        where=where,
        fix="add rows with these names in the column `split`, or remove the column to have the rows dealt"
        if by_column
        else "raise the counts of these splits in tasks.splits, as rows are dealt in their proportions; or add rows, "
        "use smaller groups (tasks.group), or name the splits in a column `split`",
    )


@dataclass(slots=True)
class Claims:
    """Notes which split has which prompt and question, and counts what was dropped (`{"train: also in test": 3}`).

    Tasks must be claimed in `CLAIM_ORDER`: then a prompt that several splits have is kept by the first of test, gate,
    validation, train and off_distribution, and dropped from the others.
    """

    owners: dict[str, Split] = field(default_factory=dict)  # by `identities`, `prompt_key` and `question_of`
    ids: set[str] = field(default_factory=set)
    dropped: Counter[str] = field(default_factory=Counter)

    def claim(self, task: Task) -> bool:
        """Return whether the task may stay in its split; if not, it is counted as dropped.

        Within a split a task is a duplicate if its id has been seen.
        """
        keys = identities(task)
        others = [owner for key in keys if (owner := self.owners.get(key, task.split)) != task.split]
        if others:
            self.dropped[f"{task.split}: also in {others[0]}"] += 1
            return False
        if task.id in self.ids:
            self.dropped[f"{task.split}: repeated"] += 1
            return False
        for key in (*keys, prompt_key(task.prompt), question_of(task)):
            self.owners[key] = task.split
        self.ids.add(task.id)
        return True

    def take_dropped(self) -> dict[str, int]:
        """Return the counts of what was dropped since the last call, which is done once for each source."""
        dropped, self.dropped = dict(self.dropped), Counter()
        return dropped


def check_apart(tasks: Iterable[Task]) -> None:
    """Raise TaskError for a prompt or question that two environments have in different splits.

    Within an environment none is; of two environments neither can be dropped, as that would move the other's splits.
    """
    owners: dict[str, Task] = {}
    for task in tasks:
        for key in identities(task):
            other = owners.setdefault(key, task)
            if other.split != task.split:
                raise TaskError(
                    f"{other.environment} has a prompt in {other.split} that {task.environment} has in {task.split} "
                    f"(tasks {other.id} and {task.id}): what is trained on would be measured",
                    where="environments",
                    fix="give them the same tasks.seed and tasks.splits, so that a prompt is in the same split of "
                    "both, or other tasks",
                )


def drop_duplicates(tasks: Iterable[Task], claims: Claims) -> list[Task]:
    """Return the tasks that may stay, in the order of `SPLITS` and then their own; `claims` counts the others."""
    of_split: dict[Split, list[Task]] = {name: [] for name in SPLITS}
    for task in tasks:
        of_split[task.split].append(task)
    kept = {name: [task for task in of_split[name] if claims.claim(task)] for name in CLAIM_ORDER}
    return [task for name in SPLITS for task in kept[name]]


def as_one_split(tasks: TaskSet, split: Split = "test") -> TaskSet:
    """Return the same tasks, all of this split, with a fingerprint that says so."""
    fingerprint = hashlib.sha256(f"{tasks.fingerprint} as {split}".encode()).hexdigest()
    return TaskSet(tuple(replace(task, split=split) for task in tasks.tasks), fingerprint, tasks.notes)
