"""The formats in which models write tool calls: from text to calls and back.

- `hermes` (Hermes, Qwen): `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, any number of times
- `llama3`: `{"name": ..., "parameters": {...}}`, several with `;` between them, as the whole message or after text and
  `<|python_tag|>`
- `mistral`: `[TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]`, or `[TOOL_CALLS]name[ARGS]{...}`

Parsing never raises. A call that cannot be read becomes an invalid call, with a sentence for the model about what is
wrong; the calls beside it count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlft.calls import CallError, read_json
from rlft.chat.parsed import Parsed, Reading
from rlft.types import ToolCall

_SPACE = re.compile(r"\s*")
_BARE_CALL = re.compile(
    r'\s*\{\s*(?:"(?:type|id)"\s*:\s*"[^"\n]*"\s*,\s*){0,2}"(?:name|function|parameters|arguments)"\s*:'
)
_NAME_ARGS = re.compile(r"\s*([^\s\[\]{}]+)\s*(?:\[CALL_ID\]\s*([^\s\[\]]+)\s*)?\[ARGS\]\s*")


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """A format of tool calls. `marks` are texts that must reach `parse` even where they are special tokens.

    `parse(write(content, calls))` gives both back if the content has none of the marks in it.
    """

    name: str
    marks: tuple[str, ...]
    parse: Callable[[str], Parsed]
    write: Callable[[str, Sequence[ToolCall]], str]


def _parse_hermes(text: str) -> Parsed:
    opening, closing = "<tool_call>", "</tool_call>"
    reading, rest, position = Reading(text), list[str](), 0
    while (start := text.find(opening, position)) >= 0:
        rest.append(text[position:start].removesuffix("\n"))
        if not reading.takes_another(start):
            return reading.done(_joined(rest))
        body = start + len(opening)
        try:
            value, end = read_json(text, _skip(text, body))
            end = _skip(text, end)
            if not text.startswith(closing, end):
                is_cut = end == len(text) or closing.startswith(text[end:])
                what = "is not closed with </tool_call>" if is_cut else f"is not JSON: text follows it{_at(text, end)}"
                raise CallError(what, end)
        except CallError as error:
            end = text.find(closing, body)
            position = end + len(closing) if end >= 0 else len(text)
            reading.problem(error, start, position)
        else:
            position = end + len(closing)
            reading.add(value, start, position)
    return reading.done(_joined([*rest, text[position:]]))


def _write_hermes(content: str, calls: Sequence[ToolCall]) -> str:
    tags = [f"<tool_call>\n{_dumps(call, 'arguments')}\n</tool_call>" for call in calls]
    return "\n".join([content, *tags] if content or not tags else tags)


def _parse_llama3(text: str) -> Parsed:
    tag = "<|python_tag|>"
    is_bare = bool(_BARE_CALL.match(text))
    start = 0 if is_bare else text.find(tag)
    if start < 0:
        return Parsed(text)
    reading, position = Reading(text), _skip(text, start if is_bare else start + len(tag))
    content = text[:start]
    if position == len(text):
        reading.problem(f"is missing: nothing follows {tag}", start, position)
    while position < len(text) and reading.takes_another(start):
        try:
            value, position = read_json(text, position)
        except CallError as error:
            reading.problem(error, start, len(text))
            break
        if is_bare and not _is_call(value):
            return Parsed(text)  # JSON that is no call is an answer
        end, position = position, _skip(text, position)
        is_separated = text[position : position + 1] == ";"
        reading.add(value, start, position + 1 if is_separated else end)  # with its `;`, which no other call has
        if position < len(text) and not is_separated:
            sentence = f"text follows tool call {reading.place - 1}{_at(text, position)}; write calls alone"
            reading.note(sentence, position, len(text))
            break
        start = position = _skip(text, position + 1)
    return reading.done(content)


def _is_call(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return isinstance(value.get("function"), dict) or (
        bool({"name", "function"} & set(value)) and bool({"parameters", "arguments"} & set(value))
    )


def _write_llama3(content: str, calls: Sequence[ToolCall]) -> str:
    written = "; ".join(_dumps(call, "parameters") for call in calls)
    return f"{content}<|python_tag|>{written}" if content and calls else content + written


def _parse_mistral(text: str) -> Parsed:
    opening = "[TOOL_CALLS]"
    start = text.find(opening)
    reading, rest = Reading(text), [text[:start] if start >= 0 else text]
    while start >= 0 and reading.takes_another(start):
        position = _skip(text, start + len(opening))
        named = _NAME_ARGS.match(text, position)
        try:
            value, end = read_json(text, named.end() if named else position)
        except CallError as error:
            following = text.find(opening, position)
            reading.problem(error, start, following if following >= 0 else len(text))
        else:
            _take_mistral(reading, value, named, start, end)
            if reading.is_full:
                break
            following = text.find(opening, end)
            rest.append(text[end : following if following >= 0 else len(text)].strip())
        start = following
    return reading.done(_joined(rest))


def _take_mistral(reading: Reading, value: Any, named: re.Match[str] | None, start: int, end: int) -> None:
    if named:
        value = {"name": named[1], "arguments": value} | ({"id": named[2]} if named[2] else {})
    values = value if isinstance(value, list) and not named else [value]
    if not values:
        reading.problem("is missing: the list is empty", start, end)
    for each in values:
        if reading.takes_another(start):
            reading.add(each, start, end)


def _write_mistral(content: str, calls: Sequence[ToolCall]) -> str:
    written = ", ".join(_dumps(call, "arguments") for call in calls)
    return f"{content}[TOOL_CALLS][{written}]" if calls else content


HERMES = ToolFormat("hermes", ("<tool_call>", "</tool_call>"), _parse_hermes, _write_hermes)
LLAMA3 = ToolFormat("llama3", ("<|python_tag|>",), _parse_llama3, _write_llama3)
# For prompts without tools: text that is JSON is an answer then, whatever its keys are.
LLAMA3_TAGGED = replace(LLAMA3, parse=lambda text: Parsed(text) if _BARE_CALL.match(text) else _parse_llama3(text))
MISTRAL = ToolFormat("mistral", ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"), _parse_mistral, _write_mistral)
FORMATS = {each.name: each for each in (HERMES, LLAMA3, MISTRAL)}


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _at(text: str, position: int) -> str:
    return f" ({text[position : position + 20]!r})"


def _joined(parts: Sequence[str]) -> str:
    """Return the text around the calls, joined by newlines; the part before the first call keeps its white space."""
    first, *others = parts
    return "\n".join(filter(None, [first, *(part.strip() for part in others)]))


def _dumps(call: ToolCall, key: str) -> str:
    function = call["function"]
    return json.dumps({"name": function["name"], key: function["arguments"]}, ensure_ascii=False)
