"""Tool calls in the format that a tokenizer declares itself: `response_template` in its tokenizer_config.json.

The parser is that of transformers (`parse_response`). It is laxer than `rlft.calls`: it does not notice a key that
occurs twice in an object.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from rlft.calls import MAX_CALLS, CallError, as_call, read_json
from rlft.chat.formats import HERMES, ToolFormat
from rlft.chat.parsed import Parsed
from rlft.contract.tools import ToolSpec
from rlft.types import InvalidToolCall, ToolCall


def declares_format(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether the tokenizer declares how the turns of its model are parsed."""
    return bool(getattr(tokenizer, "response_template", None))


def declared_format(tokenizer: PreTrainedTokenizerBase, prompt: str, tools: Sequence[ToolSpec]) -> ToolFormat:
    """Return the format that the tokenizer declares.

    `prompt` is a rendered prompt, which the parser needs because a template may open the thinking in it. Thinking that
    the parser took out is put in front of the content again, in `<think>` tags. How calls are written is not declared;
    a call that is written without a template is in Hermes format.
    """
    specs: list[Any] | None = [tool.to_json() for tool in tools] or None

    def parse(text: str) -> Parsed:
        try:
            message: Any = tokenizer.parse_response(text, prefix=prompt, tools=specs)
        except Exception as error:  # a model may write anything, and the parser raises whatever its parts raise
            return Parsed("", invalid=_invalid([f"the tool calls cannot be read: {error!s:.200}"], text))
        calls, problems = _read_calls(message.get("tool_calls") or [])
        thinking = message.get("thinking") or message.get("reasoning_content") or ""
        content = str(message.get("content") or "")
        return Parsed(
            f"<think>\n{thinking}\n</think>\n\n{content}" if thinking else content, calls, _invalid(problems, text)
        )

    return ToolFormat("declared", (), parse, HERMES.write)


def _read_calls(values: Any) -> tuple[tuple[ToolCall, ...], list[str]]:
    """Return the calls among what the parser found, and a sentence for the model about each value that is no call."""
    calls: list[ToolCall] = []
    problems: list[str] = []
    for place, value in enumerate(values if isinstance(values, list) else [values], start=1):
        if place > MAX_CALLS:
            problems.append(f"only the first {MAX_CALLS} tool calls of a turn are read")
            break
        try:
            calls.append(as_call(read_json(json.dumps(value), 0)[0]))  # as text again, for the checks of read_json
        except RecursionError:
            problems.append(f"tool call {place} is nested too deep")
        except CallError as error:
            problems.append(f"tool call {place} {error}")
    return tuple(calls), problems


def _invalid(problems: Sequence[str], text: str) -> tuple[InvalidToolCall, ...]:
    """Return the problems as invalid calls.

    The first has the whole turn as its text: the parser tells no places of calls.
    """
    return tuple(
        {"text": "" if place else text, "error": problem, "position": None} for place, problem in enumerate(problems)
    )
