"""Takes the tasks that a model cannot read out of a `TaskSet`, so that they count as an error of no policy."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection

from rlft.errors import TaskError
from rlft.tasks.ingest import fingerprint_tasks
from rlft.types import SPLITS, TaskSet

logger = logging.getLogger(__name__)


def leave_out(tasks: TaskSet, too_long: Collection[str], context_length: int) -> TaskSet:
    """Return the tasks without those of these ids, whose prompts fill the model's context of so many tokens.

    The notes get `prompts_too_long` ({split: ids}), and `rows_per_split` is counted again. Raises `TaskError` if a
    split is left without tasks.
    """
    unread = set(too_long)
    kept = tuple(task for task in tasks.tasks if task.id not in unread)
    gone = {name: [task.id for task in tasks.split(name) if task.id in unread] for name in SPLITS}
    gone = {name: ids for name, ids in gone.items() if ids}
    counts = Counter(task.split for task in kept)
    text = ", ".join(f"{name} {len(ids)}" for name, ids in gone.items())
    if empty := [name for name in gone if not counts[name]]:
        raise TaskError(
            f"the prompts of all tasks of {', '.join(empty)} are longer than the model's context of {context_length} "
            "tokens",
            where="tasks.prompt",
            fix="shorten the prompts, or use a model with a longer context",
        )
    logger.warning(
        "%d of %d tasks are left out, as their prompts are longer than the model's context of %d tokens: %s "
        "(task_notes.json names them)",
        len(unread),
        len(tasks.tasks),
        context_length,
        text,
    )
    rows = {name: counts[name] for name in SPLITS if counts[name]}
    notes = tasks.notes | {"rows_per_split": rows, "prompts_too_long": gone}
    return TaskSet(tasks=kept, fingerprint=fingerprint_tasks(kept), notes=notes)
