"""Compares demonstrations of a file with the tasks that a result is measured on."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

from rlft.config import WarmStartConfig
from rlft.errors import TaskError
from rlft.tasks.contamination.overlap import Text, normal, text_of_demonstration
from rlft.texts.characters import visible
from rlft.training.demonstration_file import iterate_demonstrations
from rlft.types import Split, TaskSet

logger = logging.getLogger(__name__)
MEASURED: tuple[Split, ...] = ("validation", "gate", "test", "off_distribution")


def check_overlap(settings: WarmStartConfig, tasks: TaskSet) -> dict[str, int]:
    """Return {split: how many of its prompts are demonstrated} for the file `settings.path`, if there is one.

    Prompts are equal if the last message of the user is (`contamination.overlap.normal`). All rows of the file
    count, also those that are not among the sample. Raises TaskError if there are some, unless
    `settings.allow_overlap` turns that into a warning; and as `iterate_demonstrations` does.
    """
    if settings.path is None:
        return {}
    splits = {normal(task.text): task.split for split in MEASURED for task in tasks.split(split)}
    shown = dict[str, None]()  # a set in the order of the file, of prompts that are tasks alone: the file may be large
    for demonstration in iterate_demonstrations(Path(settings.path)):
        asked = next((m["content"] for m in reversed(demonstration.prompt) if m["role"] == "user"), "")
        if (prompt := normal(asked)) in splits:
            shown[prompt] = None
    if not shown:
        return {}
    found = Counter(splits[prompt] for prompt in shown)
    named = ", ".join(f"{found[split]} of {split}" for split in MEASURED if found[split])
    what = f"it demonstrates tasks that the result is measured on: {named}, such as {visible(next(iter(shown)))[:80]!r}"
    if not settings.allow_overlap:
        fix = "remove these rows, or set warm_start.allow_overlap if they are to be there"
        raise TaskError(what, where=settings.path, fix=fix)
    logger.warning("%s: %s", settings.path, what)
    return dict(found)


def shown_texts(settings: WarmStartConfig | None) -> list[Text]:
    """Return all conversations of the file `settings.path` as `contamination` compares them; none without a file.

    Their ids are their places in it, such as `demonstration 12`. What the environment demonstrates is of train tasks,
    which are compared anyway. Raises as `iterate_demonstrations` does.
    """
    if settings is None or settings.path is None:
        return []
    rows = enumerate(iterate_demonstrations(Path(settings.path)), start=1)
    return [text_of_demonstration(f"demonstration {number}", row.prompt, row.turns) for number, row in rows]
