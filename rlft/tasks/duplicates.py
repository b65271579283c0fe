"""One prompt, one split: an evaluation that shares a prompt with training measures memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from rlft.tasks.rows import prompt_key
from rlft.tasks.splits import CLAIM_ORDER
from rlft.types import SPLITS, Split, Task


@dataclass(slots=True)
class Claims:
    """Which split holds which prompt so far, and what was turned away (`{"train: also in test": 3}`).

    Tasks must be claimed in `CLAIM_ORDER`: then a prompt of several splits stays in test before gate before
    validation, is dropped from train, and an off-distribution task is dropped when any other split has its prompt.
    """

    owners: dict[str, Split] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    dropped: Counter[str] = field(default_factory=Counter)

    def claim(self, task: Task, *, distinct_prompts: bool = False) -> bool:
        """Whether the task may stay in its split; counts it as dropped if not.

        Within a split a task is a duplicate when its id has been seen, and with `distinct_prompts` already when its
        prompt has.
        """
        key = prompt_key(task.prompt)
        owner = self.owners.get(key, task.split)
        if owner != task.split:
            self.dropped[f"{task.split}: also in {owner}"] += 1
            return False
        if task.id in self.ids or (distinct_prompts and key in self.owners):
            self.dropped[f"{task.split}: repeated"] += 1
            return False
        self.owners[key] = owner
        self.ids.add(task.id)
        return True

    def take_dropped(self) -> dict[str, int]:
        """What was turned away since the last call: the counts of one source."""
        dropped, self.dropped = dict(self.dropped), Counter()
        return dropped


def drop_duplicates(tasks: Iterable[Task], claims: Claims) -> list[Task]:
    """The tasks that may stay, in the order of `SPLITS` and within a split in their own; `claims` counts the rest."""
    of_split: dict[Split, list[Task]] = {name: [] for name in SPLITS}
    for task in tasks:
        of_split[task.split].append(task)
    kept = {name: [task for task in of_split[name] if claims.claim(task)] for name in CLAIM_ORDER}
    return [task for name in SPLITS for task in kept[name]]
