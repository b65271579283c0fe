"""Parts what a model thought from what it answered: the one place that knows how models write thoughts.

A thought stands in `<think>...</think>`, whose name may be `thinking`, `thought` or `seed:think` in any case, in the
like marks of other models, or in the channels of gpt-oss before the last one, `final`. Where a prompt opens a thought
itself, the text that is stored of a turn begins with `<think>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

CHANNELS = ("<|start|>", "<|channel|>", "<|message|>", "<|channel>", "<channel|>")
"""The special tokens of gpt-oss and Gemma that tell a thought from an answer."""
_NAME = r"(?:(?:seed:)?think(?:ing)?|thought)\s*>"
_OPEN = rf"<{_NAME}|\[THINK\]|◁think▷|<\|START_THINKING\|>"
_ENDS = rf"</{_NAME}|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<channel\|>|<\|channel\|>final[^<]*<\|message\|>"
_OPENS = re.compile(rf"{_OPEN}|<\|channel\|?>", re.IGNORECASE)
CLOSES = re.compile(_ENDS, re.IGNORECASE)
"""The end of a thought."""
_OPENED = re.compile(rf"(?:{_OPEN})\s*\Z", re.IGNORECASE)


class Parted(NamedTuple):
    """What a model said: its thoughts with their marks, empty where there are none, and its answer."""

    thinking: str
    answer: str


def part(text: str) -> Parted:
    """Part a text. The answer is what follows the last closed thought; a thought that is never closed has none.

    >>> from rlft.types.thinking import part
    >>> part("<think>Six times seven.</think> 42").answer
    '42'
    >>> part("<think>Perhaps 42, or").answer
    ''
    """
    end = max((match.end() for match in CLOSES.finditer(text)), default=0)
    if _OPENS.search(text, end):
        return Parted(text, "")
    return Parted(text[:end], text[end:].strip()) if end else Parted("", text)


def is_open(prompt: str) -> bool:
    """Return whether a prompt ends with an open thought, so that the model begins within it."""
    return bool(_OPENED.search(prompt))


def answer_of(messages: Iterable[Any]) -> str:
    """Return the answer in the last message of the assistant, or an empty text if there is none."""
    said = [message["content"] for message in messages if message["role"] == "assistant"]
    return part(said[-1] or "").answer if said else ""
