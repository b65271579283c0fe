"""Takes the tasks that a model cannot read out of a `TaskSet`, so that they count as an error of no policy."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection

from rlft.errors import TaskError
from rlft.tasks.ingest import fingerprint_tasks
from rlft.types import SPLITS, TaskSet

logger = logging.getLogger(__name__)


def leave_out(
    tasks: TaskSet, too_long: Collection[str], unreadable: Collection[str], context_length: int | None
) -> TaskSet:
    """Return the tasks without those of these ids.

    The prompts of `too_long` fill the model's context of so many tokens, and `unreadable` ones, tasks from use, have
    characters without a token. The notes get `prompts_too_long` and `prompts_unreadable` ({split: ids}), and
    `rows_per_split` is counted again. Raises `TaskError` if a split is left without tasks.
    """
    reasons = {
        "prompts_too_long": (too_long, f"their prompts are longer than the model's context of {context_length} tokens"),
        "prompts_unreadable": (unreadable, "people used characters in them that the model's tokenizer lacks"),
    }
    unread = {*too_long, *unreadable}
    kept = tuple(task for task in tasks.tasks if task.id not in unread)
    counts = Counter(task.split for task in kept)
    notes = tasks.notes | {"rows_per_split": {name: counts[name] for name in SPLITS if counts[name]}}
    for note, (ids, why) in reasons.items():
        gone = {name: [task.id for task in tasks.split(name) if task.id in ids] for name in SPLITS}
        gone = {name: found for name, found in gone.items() if found}
        if empty := [name for name in gone if not counts[name]]:
            raise TaskError(
                f"no task of {', '.join(empty)} is left, as {why}",
                where="tasks.prompt",
                fix="shorten the prompts, or use a model with a longer context",
            )
        if gone:
            logger.warning(
                "%d of %d tasks are left out, as %s: %s (task_notes.json names them)",
                sum(map(len, gone.values())),
                len(tasks.tasks),
                why,
                ", ".join(f"{name} {len(found)}" for name, found in gone.items()),
            )
            notes |= {note: gone}
    return TaskSet(tasks=kept, fingerprint=fingerprint_tasks(kept), notes=notes)
