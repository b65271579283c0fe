"""Leaves out what a run trains or is measured on already, exactly or nearly, and what would stand in both splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from rlft.contamination import Overlap, find_contamination
from rlft.contamination.texts import Text
from rlft.gates.identity import prompt_key, question_of, task_hash
from rlft.tasks.duplicates import Claims
from rlft.tasks.use.records import Account, Reason
from rlft.types import Split, Task

_Where = Literal["train", "held_out", "demonstrations"]
_REASONS: dict[tuple[_Where, bool], Reason] = {
    ("train", True): "in_train",
    ("train", False): "near_train",
    ("held_out", True): "in_held_out",
    ("held_out", False): "near_held_out",
    ("demonstrations", True): "in_demonstrations",
    ("demonstrations", False): "near_demonstrations",
}


def leave_out_known(
    tasks: Sequence[Task], others: Sequence[Task], demonstrations: Sequence[Text], claims: Claims, account: Account
) -> list[Task]:
    """Return the tasks whose prompts neither are nor overlap with those of `others` and demonstrations.

    What overlaps is defined in docs/guide/contamination.md. `claims` holds the questions of `others`.
    """
    splits: dict[str, Split] = {task.id: task.split for task in others}
    bare = [[replace(task, answer=None) for task in each] for each in (tasks, others)]  # people write answers otherwise
    found = find_contamination({"use": bare[0]}, bare[1], demonstrations).found
    kept = list[Task]()
    for task in tasks:
        owners: list[Split] = [claims.owners[key] for key in _keys(task) if key in claims.owners]
        if owners:
            account.leave_out(_REASONS[_where(owners[0]), True])
        elif (overlap := found.get(task.id)) is not None:
            account.leave_out(_reason(overlap, splits))
        elif task.id in claims.ids:
            account.leave_out("in_train")  # with an id that a row of the file has, too
        else:
            kept.append(task)
    return kept


def leave_out_near_validation(tasks: Sequence[Task], account: Account) -> list[Task]:
    """Return the tasks without those of `train` that overlap with one of `validation`."""
    measured = [task for task in tasks if task.split == "validation"]
    trained = [task for task in tasks if task.split == "train"]
    found = find_contamination({"use": trained}, measured).found
    for overlap in found.values():
        account.leave_out(_REASONS["held_out", overlap.kind == "exact"])
    return [task for task in tasks if task.id not in found]


def leave_out_trained_before(tasks: Sequence[Task], hashes: frozenset[str], account: Account) -> list[Task]:
    """Return the tasks that the champion was not trained on, by their hashes."""
    kept = [task for task in tasks if task_hash(task) not in hashes]
    account.leave_out("trained_before", len(tasks) - len(kept))
    return kept


def _keys(task: Task) -> tuple[str, str]:
    return prompt_key(task.prompt), question_of(task)


def _reason(overlap: Overlap, splits: Mapping[str, Split]) -> Reason:
    where = "demonstrations" if overlap.source == "demonstrations" else _where(splits[overlap.other])
    return _REASONS[where, overlap.kind == "exact"]


def _where(split: Split) -> _Where:
    return "train" if split == "train" else "held_out"
