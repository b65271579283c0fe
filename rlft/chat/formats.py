"""Tool calls as models write them: from text to calls and back.

- `hermes` (Hermes, Qwen): `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, as often as wanted
- `llama3`: `{"name": ..., "parameters": {...}}` is the whole message; several with `;` between; after `<|python_tag|>`
  there may be text before
- `mistral`: `[TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]`, or `[TOOL_CALLS]name[ARGS]{...}`

Reading never raises. What is no proper call becomes a sentence for the model in `problems`; the calls beside it stand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlft.calls import MAX_CALLS, CallError, as_call, read_json
from rlft.types import ToolCall

_SPACE = re.compile(r"\s*")
_BARE_CALL = re.compile(r'\s*\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"(?:name|function)"\s*:')
_NAME_ARGS = re.compile(r"\s*([^\s\[\]{}]+)\s*(?:\[CALL_ID\]\s*([^\s\[\]]+)\s*)?\[ARGS\]\s*")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A turn taken apart. A call has the id that the model wrote, else an empty one."""

    content: str
    calls: tuple[ToolCall, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """A form of tool calls. `marks` are texts that may be special tokens and must reach `parse` nevertheless.

    `parse(write(content, calls))` gives both back, for contents without the form's marks in them.
    """

    name: str
    marks: tuple[str, ...]
    parse: Callable[[str], Parsed]
    write: Callable[[str, Sequence[ToolCall]], str]


class _Reading:
    """Calls and problems in the order in which they are met."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self.problems: list[str] = []
        self._is_full = False

    @property
    def place(self) -> int:
        return len(self.calls) + len(self.problems) + 1

    def takes_another(self) -> bool:
        """Whether one more call is read; that it is not becomes a problem, once."""
        if self.place > MAX_CALLS and not self._is_full:
            self._is_full = True
            self.problems.append(f"only the first {MAX_CALLS} tool calls of a turn are read")
        return not self._is_full

    def problem(self, what: object) -> None:
        self.problems.append(f"tool call {self.place} {what}")

    def add(self, value: Any) -> bool:
        try:
            self.calls.append(as_call(value))
        except CallError as error:
            self.problem(error)
            return False
        return True

    def done(self, content: str) -> Parsed:
        return Parsed(content, tuple(self.calls), tuple(self.problems))


def _parse_hermes(text: str) -> Parsed:
    opening, closing = "<tool_call>", "</tool_call>"
    reading, rest, position = _Reading(), [], 0
    while (start := text.find(opening, position)) >= 0 and reading.takes_another():
        rest.append(text[position:start].removesuffix("\n"))
        body = start + len(opening)
        try:
            value, end = read_json(text, _skip(text, body))
            end = _skip(text, end)
            if not text.startswith(closing, end):
                is_cut = end == len(text) or closing.startswith(text[end:])
                raise CallError(
                    "is not closed with </tool_call>" if is_cut else f"is not JSON: text follows it{_at(text, end)}"
                )
        except CallError as error:
            reading.problem(error)
            end = text.find(closing, body)
            if end < 0:
                return reading.done(_joined(rest))
        else:
            reading.add(value)
        position = end + len(closing)
    return reading.done(_joined([*rest, text[position:]]))


def _write_hermes(content: str, calls: Sequence[ToolCall]) -> str:
    tags = [f"<tool_call>\n{_dumps(call, 'arguments')}\n</tool_call>" for call in calls]
    return "\n".join([content, *tags] if content or not tags else tags)


def _parse_llama3(text: str) -> Parsed:
    if is_bare := bool(_BARE_CALL.match(text)):
        content, body = "", text
    else:
        content, tag, body = text.partition("<|python_tag|>")
        if not tag:
            return Parsed(text)
    reading, position = _Reading(), _skip(body, 0)
    if position == len(body):
        reading.problem("is missing: nothing follows <|python_tag|>")
    while position < len(body) and reading.takes_another():
        try:
            value, position = read_json(body, position)
        except CallError as error:
            reading.problem(error)
            break
        if is_bare and not _is_call(value):
            return Parsed(text)  # an answer may be JSON too
        reading.add(value)
        position = _skip(body, position)
        if position < len(body) and body[position] != ";":
            reading.problems.append(
                f"text follows tool call {reading.place - 1}{_at(body, position)}; write calls alone"
            )
            break
        position = _skip(body, position + 1)
    return reading.done(content)


def _is_call(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return isinstance(value.get("function"), dict) or (
        "name" in value and bool({"parameters", "arguments"} & set(value))
    )


def _write_llama3(content: str, calls: Sequence[ToolCall]) -> str:
    written = "; ".join(_dumps(call, "parameters") for call in calls)
    return f"{content}<|python_tag|>{written}" if content and calls else content + written


def _parse_mistral(text: str) -> Parsed:
    opening = "[TOOL_CALLS]"
    content, tag, body = text.partition(opening)
    reading, rest, position = _Reading(), [content], 0
    while tag and reading.takes_another():
        position = _skip(body, position)
        named = _NAME_ARGS.match(body, position)
        try:
            value, position = read_json(body, named.end() if named else position)
        except CallError as error:
            reading.problem(error)
            position = body.find(opening, position)
        else:
            if named:
                value = {"name": named[1], "arguments": value} | ({"id": named[2]} if named[2] else {})
            values = value if isinstance(value, list) and not named else [value]
            if not values:
                reading.problem("is missing: the list is empty")
            for each in values:
                if not reading.takes_another():
                    break
                reading.add(each)
        following = body.find(opening, position) if position >= 0 else -1
        if position >= 0:
            rest.append(body[position : following if following >= 0 else len(body)].strip())
        if following < 0:
            break
        position = following + len(opening)
    return reading.done(_joined(rest))


def _write_mistral(content: str, calls: Sequence[ToolCall]) -> str:
    written = ", ".join(_dumps(call, "arguments") for call in calls)
    return f"{content}[TOOL_CALLS][{written}]" if calls else content


HERMES = ToolFormat("hermes", ("<tool_call>", "</tool_call>"), _parse_hermes, _write_hermes)
LLAMA3 = ToolFormat("llama3", ("<|python_tag|>",), _parse_llama3, _write_llama3)
# Without tools on offer an answer in JSON is an answer, whatever its keys are called.
LLAMA3_TAGGED = replace(LLAMA3, parse=lambda text: Parsed(text) if _BARE_CALL.match(text) else _parse_llama3(text))
MISTRAL = ToolFormat("mistral", ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"), _parse_mistral, _write_mistral)
FORMATS = {each.name: each for each in (HERMES, LLAMA3, MISTRAL)}


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _at(text: str, position: int) -> str:
    return f" ({text[position : position + 20]!r})"


def _joined(parts: Sequence[str]) -> str:
    """Text around the calls: what stands before the first stays as it is."""
    first, *others = parts
    return "\n".join(filter(None, [first, *(part.strip() for part in others)]))


def _dumps(call: ToolCall, key: str) -> str:
    function = call["function"]
    return json.dumps({"name": function["name"], key: function["arguments"]}, ensure_ascii=False)
