"""Keeps a prompt from being in two splits: an evaluation that shares prompts with training measures memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from rlft.errors import TaskError
from rlft.gates.identity import identities, prompt_key, question_of
from rlft.tasks.splits import CLAIM_ORDER
from rlft.types import SPLITS, Split, Task


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
