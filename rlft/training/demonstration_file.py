"""Reads demonstrations, conversations whose last assistant messages are to be imitated, from a JSONL file.

They are compared with the tasks that a result is measured on.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rlft.config import WarmStartConfig
from rlft.errors import TaskError
from rlft.files import json_line, why_no_file
from rlft.messages import MessageError, as_messages
from rlft.tasks.contamination import Text, normal, text_of_demonstration
from rlft.texts.characters import visible
from rlft.types import Message, Split, TaskSet

logger = logging.getLogger(__name__)
_Row = TypeVar("_Row")
MEASURED: tuple[Split, ...] = ("validation", "gate", "test", "off_distribution")


@dataclass(frozen=True, slots=True)
class Demonstration:
    """Holds a prompt's messages and those after it, of which the assistant's are imitated and the others only read.

    `environment` is the one of several that it is of, whose tools its prompt describes; it is empty where there is one.
    """

    prompt: tuple[Message, ...]
    turns: tuple[Message, ...]
    environment: str = ""


def read_demonstrations(path: Path, limit: int | None = None) -> list[Demonstration]:
    """Return all demonstrations of a file, or a sample of at most `limit`, always the same one, in their order.

    The first rows would not do, as a file may be sorted. Raises as `iterate_demonstrations` does.
    """
    found = list(iterate_demonstrations(path))
    if limit is None or len(found) <= limit:
        return found
    return [found[place] for place in sorted(random.Random(0).sample(range(len(found)), limit))]


def iterate_demonstrations(path: Path) -> Iterator[Demonstration]:
    """Yield the demonstrations of JSONL rows with `messages`, the last one the assistant's; blank lines are skipped.

    Messages are in any form that `rlft.messages.as_messages` takes. The assistant's messages after the last one of the
    user are imitated, with their `tool_calls` if there are any; what comes before them is the prompt. Raises as
    `iterate_rows` does.
    """
    example = '{"messages": [{"role": "user", ...}, {"role": "assistant", ...}]}'
    return iterate_rows(path, _demonstration, "demonstration", "warm_start.path", example)


def iterate_rows(path: Path, read: Callable[[Any], _Row], what: str, setting: str, example: str) -> Iterator[_Row]:
    """Yield what `read` makes of each row of the JSONL file that a setting names; blank lines are skipped.

    Raises TaskError for a missing file, for a row that is not `what` it should be (with its line), and for a file
    without any.
    """
    if problem := why_no_file(path):
        raise TaskError(problem, where=str(path), fix=f"check {setting}")
    found = False
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = read(json_line(line))
            except (ValueError, KeyError, TypeError) as cause:
                said = cause if isinstance(cause, MessageError) else repr(cause)
                fix = f"write rows such as {example}"
                raise TaskError(f"not a {what}: {said}", where=f"{path}:{number}", fix=fix) from cause
            found = True
            yield row
    if not found:
        raise TaskError(f"no {what}s in it", where=str(path), fix=f"write some, or remove {setting}")


def _demonstration(row: Any) -> Demonstration:
    messages = as_messages(row["messages"])
    if len(messages) < 2 or messages[-1]["role"] != "assistant":
        raise MessageError("the last of at least two messages must be the assistant's")
    asked = [place for place, message in enumerate(messages) if message["role"] == "user"]
    start = asked[-1] + 1 if asked else len(messages) - 1  # without a user only the last message is imitated
    return Demonstration(tuple(messages[:start]), tuple(messages[start:]))


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
