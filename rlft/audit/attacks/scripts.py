"""How golds and attempts are said: scripts, what they say last, and the form that stands around an answer."""

from __future__ import annotations

from typing import Any

from rlft.audit.attacks.texts import as_json, plain
from rlft.harness.scripted import Script, as_script
from rlft.types import ToolCall

_TELLING = 3  # characters of an answer that is not in a form by chance


def script_of(text: str) -> Script:
    """Return the script of one message."""
    return as_script(text)


def calls_of(script: Script) -> list[ToolCall]:
    """Return the tool calls of a script, in order."""
    return [call for message in script for call in message.get("tool_calls") or ()]


def text_of(script: Script) -> str:
    """Return what a script says last; nothing if its last message calls a tool."""
    return "" if script[-1].get("tool_calls") else script[-1]["content"]


def said_answers(answer: Any) -> list[str]:
    """Return the texts that a task's answer may be said as: those of a list, or of a number, or the text itself."""
    found = answer if isinstance(answer, list) else [answer]
    texts = [str(each) for each in found if isinstance(each, str | int | float) and not isinstance(each, bool)]
    return [text for text in texts if text.strip()]


def form_of(text: str, shared: tuple[str, str], answer: Any) -> tuple[str, str]:
    """Return what stands before and behind the answer in a gold text.

    That is the form which all golds share, and what else stands around the task's answer where it is in the text once.
    """
    begins, ends = shared
    if any(len(each) >= _TELLING and plain(each) in plain(begins + ends) for each in said_answers(answer)):
        return "", ""  # what all golds share holds this answer, so that it is no empty form
    inner = text.removeprefix(begins).removesuffix(ends)
    found = [each for each in said_answers(answer) if each in inner]
    # Several texts of a list are the items of one answer, unless each is a longer way to say another.
    whole = {each for each in found if not any(each != other and each in other for other in found)}
    if len(whole) == 1 and as_json(text) is None and inner.count(each := whole.pop()) == 1:
        before, _, behind = inner.partition(each)
        return begins + before, behind + ends
    return begins, ends
