"""Reads demonstrations, conversations whose last assistant messages are to be imitated, from a JSONL file."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlft.errors import TaskError
from rlft.files import json_line, why_no_file
from rlft.messages import MessageError, as_messages
from rlft.types import Message


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
    user are imitated, with their `tool_calls` if there are any; what comes before them is the prompt.

    Raises TaskError for a missing file, for a row that is no demonstration (with its line), and for a file without any.
    """
    if problem := why_no_file(path):
        raise TaskError(problem, where=str(path), fix="check warm_start.path")
    found = False
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                demonstration = _demonstration(as_messages(json_line(line)["messages"]))
            except (ValueError, KeyError, TypeError) as cause:
                raise TaskError(
                    f"not a demonstration: {cause if isinstance(cause, MessageError) else repr(cause)}",
                    where=f"{path}:{number}",
                    fix='write rows such as {"messages": [{"role": "user", ...}, {"role": "assistant", ...}]}',
                ) from cause
            found = True
            yield demonstration
    if not found:
        raise TaskError("no demonstrations in it", where=str(path), fix="write some, or remove warm_start.path")


def _demonstration(messages: tuple[Message, ...]) -> Demonstration:
    if len(messages) < 2 or messages[-1]["role"] != "assistant":
        raise MessageError("the last of at least two messages must be the assistant's")
    asked = [place for place, message in enumerate(messages) if message["role"] == "user"]
    start = asked[-1] + 1 if asked else len(messages) - 1  # without a user only the last message is imitated
    return Demonstration(tuple(messages[:start]), tuple(messages[start:]))
