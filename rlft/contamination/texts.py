"""Tasks and conversations as the words that are compared."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rlft.contamination.words import words
from rlft.gates.identity import question_key, question_of
from rlft.types import Message, Task

Source = Literal["train", "demonstrations"]


@dataclass(frozen=True, slots=True)
class Text:
    """Holds what is compared of a task or a demonstration.

    `parts` are the words of each message but those of role `system`, which the harness writes. `prompt` is a hash of
    the words of the whole prompt, and `question` that of what is asked, whatever template it stands in
    (`rlft.gates.identity`). Texts of one `group` count once where it is asked how many texts have something in common.
    """

    id: str
    source: Source
    group: str
    parts: tuple[list[str], ...]
    prompt: str
    question: str


def text_of_task(task: Task, source: Source = "train") -> Text:
    """Return what is compared of a task: its prompt, not its answer."""
    parts = _parts(task.prompt)
    return Text(task.id, source, task.group, parts, _digest(parts), question_of(task))


def text_of_demonstration(id: str, prompt: Sequence[Message], turns: Sequence[Message]) -> Text:
    """Return what is compared of a conversation that is imitated: its prompt, and all that follows.

    Demonstrations with the same prompt are one group. What is asked is taken to be the last message of the user.
    """
    parts = _parts(prompt)
    asked = next((message["content"] for message in reversed(prompt) if message["role"] == "user"), "")
    same = _digest(parts)
    return Text(id, "demonstrations", same, parts + _parts(turns), same, question_key([asked]))


def _parts(messages: Sequence[Message]) -> tuple[list[str], ...]:
    """Return the words of the messages, of those of role `system` only where there are no others."""
    told = [message for message in messages if message["role"] != "system"]
    return tuple(words(message["content"]) for message in told or messages)


def _digest(parts: Sequence[Sequence[str]]) -> str:
    """Return a hash of the words of all messages, wherever one ends; that of no words is empty."""
    joined = " ".join(word for part in parts for word in part)
    return hashlib.sha256(joined.encode(errors="surrogatepass")).hexdigest()[:16] if joined else ""
