"""Tool calls in the form that a tokenizer declares itself: `response_template` of its tokenizer_config.json.

transformers reads it (`parse_response`). Its reader is laxer than ours: a key that stands twice is not noticed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from rlft.calls import MAX_CALLS, CallError, as_call, read_json
from rlft.chat.formats import HERMES, Parsed, ToolFormat
from rlft.contract.tools import ToolSpec
from rlft.types import InvalidToolCall, ToolCall


def declares_format(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the tokenizer says how its model's turns are read."""
    return bool(getattr(tokenizer, "response_template", None))


def declared_format(tokenizer: PreTrainedTokenizerBase, prompt: str, tools: Sequence[ToolSpec]) -> ToolFormat:
    """The tokenizer's own form. `prompt` is a rendered prompt, because templates may open the thinking in it.

    Thinking that the tokenizer calls so is put in front of the content again, in `<think>` tags. The tokenizer declares
    no writing; a call written without a template is in Hermes form.
    """
    specs: list[Any] | None = [tool.to_json() for tool in tools] or None

    def parse(text: str) -> Parsed:
        try:
            message: Any = tokenizer.parse_response(text, prefix=prompt, tools=specs)
        except Exception as error:  # its reader raises whatever its parts raise, for text that a model wrote
            return Parsed("", invalid=_invalid([f"the tool calls cannot be read: {error!s:.200}"], text))
        calls, problems = _read_calls(message.get("tool_calls") or [])
        thinking = message.get("thinking") or message.get("reasoning_content") or ""
        content = str(message.get("content") or "")
        return Parsed(
            f"<think>\n{thinking}\n</think>\n\n{content}" if thinking else content, calls, _invalid(problems, text)
        )

    return ToolFormat("declared", (), parse, HERMES.write)


def _read_calls(values: Any) -> tuple[tuple[ToolCall, ...], list[str]]:
    calls: list[ToolCall] = []
    problems: list[str] = []
    for place, value in enumerate(values if isinstance(values, list) else [values], start=1):
        if place > MAX_CALLS:
            problems.append(f"only the first {MAX_CALLS} tool calls of a turn are read")
            break
        try:
            calls.append(as_call(read_json(json.dumps(value), 0)[0]))
        except RecursionError:
            problems.append(f"tool call {place} is nested too deep")
        except CallError as error:
            problems.append(f"tool call {place} {error}")
    return tuple(calls), problems


def _invalid(problems: Sequence[str], text: str) -> tuple[InvalidToolCall, ...]:
    """The problems with the text of the whole turn at the first: the reader does not say where its calls stand."""
    return tuple(
        {"text": "" if place else text, "error": problem, "position": None} for place, problem in enumerate(problems)
    )
