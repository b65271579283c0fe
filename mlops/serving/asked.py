"""A request as an engine gets it: with the context that the policy was trained in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# How vLLM calls the reader of the tool calls that rlft's formats write.
PARSERS = {"hermes": "hermes", "llama3": "llama3_json", "mistral": "mistral"}
_OF_SYSTEM = ("system", "developer")


def tool_parser(context: Mapping[str, Any]) -> str | None:
    """Return vLLM's name of the reader for a version's calls; `None` if it has none, or the version calls no tools."""
    return PARSERS.get(str(context.get("tool_format"))) if context.get("tools") else None


def with_context(body: Mapping[str, Any], context: Mapping[str, Any], *, reads_calls: bool) -> dict[str, Any]:
    """Return a chat request with the version's system prompt and tools, each where the request has none of its own.

    `"tools": []` in a request means none. `reads_calls` says whether the engine reads calls: where it does not, the
    tools stand in the prompt alone, and calls in the text of the answer.
    """
    asked = dict(body)
    messages = body.get("messages")
    prompt = context.get("system_prompt")
    if prompt and isinstance(messages, list) and not any(_is_system(message) for message in messages):
        asked["messages"] = [{"role": "system", "content": prompt}, *messages]
    tools = context.get("tools")
    if tools and body.get("tools") is None:
        asked["tools"] = list(tools)
        if not reads_calls and body.get("tool_choice") is None:
            asked["tool_choice"] = "none"
    if asked.get("tools") == []:  # vLLM refuses an empty list
        del asked["tools"]
    return asked


def _is_system(message: Any) -> bool:
    return isinstance(message, Mapping) and message.get("role") in _OF_SYSTEM
