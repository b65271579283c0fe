"""What an engine has answered, made of the bytes that it sent: JSON, or a stream of events."""

from __future__ import annotations

import json
from typing import Any


def answered_messages(content_type: str, body: bytes) -> list[dict[str, Any]]:
    """Return the messages of an answer of the chat or completions route; the choices one after another.

    Never raises: of what cannot be read the text is returned as it is.
    """
    text = body.decode("utf-8", errors="replace")
    try:
        if "event-stream" in content_type:
            return _joined(text)
        choices = json.loads(text)["choices"]
        return [choice.get("message") or {"role": "assistant", "content": choice["text"]} for choice in choices]
    except (ValueError, KeyError, TypeError, AttributeError):
        return [{"role": "assistant", "content": text}]


def _joined(stream: str) -> list[dict[str, Any]]:
    """Join the deltas of a stream of server-sent events, by choice; calls of tools are joined by their index."""
    found: dict[int, dict[str, Any]] = {}
    for line in stream.splitlines():
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or data == "[DONE]":
            continue
        for choice in json.loads(data).get("choices") or []:
            message = found.setdefault(choice.get("index") or 0, {"role": "assistant", "content": ""})
            delta = choice.get("delta") or {"content": choice.get("text")}
            message["content"] += delta.get("content") or ""
            for call in delta.get("tool_calls") or []:
                _add_call(message, call)
    return [_finished(message) for _, message in sorted(found.items())]


def _add_call(message: dict[str, Any], delta: dict[str, Any]) -> None:
    calls = message.setdefault("tool_calls", {})
    call = calls.setdefault(delta.get("index") or 0, {"type": "function", "function": {"name": "", "arguments": ""}})
    if delta.get("id"):
        call["id"] = delta["id"]
    for part in ("name", "arguments"):
        call["function"][part] += (delta.get("function") or {}).get(part) or ""


def _finished(message: dict[str, Any]) -> dict[str, Any]:
    calls = message.pop("tool_calls", None)
    return message if calls is None else {**message, "tool_calls": [call for _, call in sorted(calls.items())]}
