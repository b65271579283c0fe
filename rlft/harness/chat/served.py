"""What is sent to an OpenAI-compatible endpoint, and what its answers say: messages without tokens, both ways."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rlft.harness.chat.base import AssistantTurn
from rlft.messages import MAX_CALLS, MAX_CHARACTERS, CallError, as_call, as_openai, printable, read_json, written
from rlft.types import InvalidToolCall, Message, ToolCall

_SENT = ("role", "content", "tool_calls", "tool_call_id")


def as_sent(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as an endpoint takes them.

    A call that could not be read stands in the content of its message, as it was written. The sentence about it answers
    no call that the endpoint would know, so it is said by the user.
    """
    return [_sent(message) for message in messages]


def _sent(message: Message) -> dict[str, Any]:
    if message["role"] == "tool" and not message.get("tool_call_id"):
        return {"role": "user", "content": message["content"]}
    whole = as_openai(message) | {"content": written(message)}
    return {key: whole[key] for key in _SENT if key in whole}


def read_served(message: Mapping[str, Any]) -> AssistantTurn:
    """Read the message of an answer. Calls that cannot be read become invalid calls, with a sentence for the model.

    A refusal counts as what the model says. Raises ValueError for what is no message: content that is no text, calls
    that are no list, or more characters than a turn may have.
    """
    content = _text(message.get("content")) or _text(message.get("refusal"))
    given = message.get("tool_calls") or []
    if not isinstance(given, list):
        raise ValueError("its tool_calls are no list")
    calls, invalid = list[ToolCall](), list[InvalidToolCall]()
    for place, value in enumerate(given[:MAX_CALLS], start=1):
        text = json.dumps(value, ensure_ascii=False)
        try:
            calls.append(_named(as_call(read_json(text, 0)[0]), place, {call["id"] for call in calls}))
        except CallError as error:
            invalid.append({"text": printable(_bare(value)), "error": f"tool call {place} {error}", "position": None})
    if len(given) > MAX_CALLS:
        why = f"only the first {MAX_CALLS} tool calls of a turn are read"
        invalid.append({"text": "", "error": why, "position": None})
    return AssistantTurn(content, tuple(calls), tuple(invalid))


def _text(content: Any) -> str:
    """Return text, or the text parts of a list; empty for `None`. Raises ValueError for anything else."""
    parts = content if isinstance(content, list) else [] if content is None else [{"type": "text", "text": content}]
    texts = list[str]()
    for part in (part for part in parts if not _is_thinking(part)):
        text = part.get("text") if isinstance(part, dict) else part
        if not isinstance(text, str):
            raise ValueError("its content is no text")
        texts.append(text)
    if sum(map(len, texts)) > MAX_CHARACTERS:
        raise ValueError(f"its content is longer than {MAX_CHARACTERS} characters")
    return printable("".join(texts))


def _is_thinking(part: Any) -> bool:
    """Return whether a part of the content is thinking, which some servers put beside the text."""
    return isinstance(part, dict) and part.get("type") in ("thinking", "reasoning")


def _named(call: ToolCall, place: int, taken: set[str]) -> ToolCall:
    """Return the call with an id that no call of the turn before it has: nine characters, as Mistral wants them."""
    return call if call["id"] and call["id"] not in taken else {**call, "id": f"call{place:05d}"}


def _bare(value: Any) -> str:
    """Return what the model wrote for a call: name and arguments as they came."""
    function = value.get("function") if isinstance(value, dict) else None
    if isinstance(function, dict) and isinstance(function.get("arguments"), str):
        return f"{function.get('name')}({function['arguments']})"
    return json.dumps(value, ensure_ascii=False)
