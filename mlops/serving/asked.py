"""A request as an engine gets it: with the context that the policy was trained in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# How vLLM calls the reader of the tool calls that rlft's formats write.
PARSERS = {"hermes": "hermes", "llama3": "llama3_json", "mistral": "mistral"}
ENVIRONMENT_HEADER = "rlft-environment"
_OF_SYSTEM = ("system", "developer")


def tool_parser(context: Mapping[str, Any]) -> str | None:
    """Return vLLM's name of the reader for a version's calls; `None` if it has none, or the version calls no tools.

    One that was trained in several environments calls tools if any of them has some.
    """
    calls = any(each.get("tools") for each in (context, *_members(context).values()))
    return PARSERS.get(str(context.get("tool_format"))) if calls else None


def context_of(context: Mapping[str, Any], environment: str | None) -> Mapping[str, Any]:
    """Return the context of the environment that a request names, or the version's own if it names none.

    Raises ValueError, a sentence, for a name that the version does not know.
    """
    if environment is None:
        return context
    members = _members(context)
    if environment not in members:
        there = f"there are {', '.join(members)}" if members else "this version has the context of one environment"
        raise ValueError(f"the header {ENVIRONMENT_HEADER} names {environment!r:.80}, which is not known; {there}")
    return members[environment]


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


def _members(context: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    return context.get("members") or {}


def _is_system(message: Any) -> bool:
    return isinstance(message, Mapping) and message.get("role") in _OF_SYSTEM
