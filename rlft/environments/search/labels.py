"""Reads what a search task says is right: the gold documents, their near duplicates and the gold answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlft.types import Task, Trajectory


def gold_ids(task: Task) -> list[str]:
    """Return the ids of the task's gold documents, each once. Raises ValueError where the task lists none."""
    ids = task.info.get("gold_doc_ids")
    if not isinstance(ids, list) or not ids or not all(isinstance(each, str) for each in ids):
        raise ValueError(f"gold_doc_ids of task {task.id} are {ids!r:.80}, not a list of document ids")
    return list(dict.fromkeys(ids))


def as_gold(ids: set[str], task: Task) -> set[str]:
    """Return the ids with each near duplicate's replaced by that of its gold document."""
    twins = {twin: gold for gold, all_of in (task.info.get("near_duplicates_of_gold") or {}).items() for twin in all_of}
    return {twins.get(each, each) for each in ids}


def accepted(completion: Trajectory) -> set[str]:
    """Return the ids of the documents that were read and are gold, or near duplicates of gold ones."""
    gold = set(gold_ids(completion.task))
    return {each for each in completion.state.get("read", ()) if as_gold({each}, completion.task) <= gold}


def recall(ids: Sequence[str], task: Task) -> float:
    """Return the share of the gold documents, 0 to 1, that are among `ids` themselves or as a near duplicate."""
    gold = set(gold_ids(task))
    return len(as_gold(set(ids), task) & gold) / len(gold)


def gold_answers(answer: Any) -> list[str]:
    """Return the right answers of a task whose `answer` is one text or a list of them. Raises ValueError otherwise."""
    golds = [answer] if isinstance(answer, str) else answer
    if not isinstance(golds, list) or not golds or not all(isinstance(each, str) and each.strip() for each in golds):
        raise ValueError(f"the task's answer {answer!r:.80} is neither text nor a list of texts")
    return golds
