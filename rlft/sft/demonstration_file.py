"""Demonstrations from a file: conversations whose last turn is to be imitated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlft.errors import TaskError
from rlft.messages import MessageError, as_messages
from rlft.types import Message


@dataclass(frozen=True, slots=True)
class Demonstration:
    """Prompt messages, and the conversation after it: the assistant's messages are imitated, the others are read."""

    prompt: tuple[Message, ...]
    turns: tuple[Message, ...]


def read_demonstrations(path: Path) -> list[Demonstration]:
    """All demonstrations of a file; raises as `iterate_demonstrations` does."""
    return list(iterate_demonstrations(path))


def iterate_demonstrations(path: Path) -> Iterator[Demonstration]:
    """Demonstrations from JSONL rows with `messages`, the last one the assistant's; blank lines are passed over.

    Messages are in any form that `rlft.messages.as_messages` takes.

    The assistant's messages after the last one of the user are imitated, with their `tool_calls` if there are any.

    Raises TaskError with the line, and when there are none.
    """
    if not path.is_file():
        raise TaskError("no such file", where=str(path), fix="check warm_start.path")
    found = False
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                demonstration = _demonstration(as_messages(json.loads(line.decode("utf-8"))["messages"]))
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
    start = asked[-1] + 1 if asked else len(messages) - 1
    return Demonstration(tuple(messages[:start]), tuple(messages[start:]))
