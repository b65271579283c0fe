"""The formats in which models write tool calls: from text to calls and back.

- `hermes` (Hermes, Qwen): `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, any number of times
- `llama3`: `{"name": ..., "parameters": {...}}`, several with `;` between them, as the whole message or after text and
  `<|python_tag|>`
- `mistral`: `[TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]`, or `[TOOL_CALLS]name[ARGS]{...}`

Parsing never raises, and a call has the id that the model wrote, or else an empty one. A call that cannot be read
becomes an invalid call, with a sentence for the model about what is wrong; the calls beside it count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlft.messages import MAX_CALLS, CallError, as_call, read_json
from rlft.types import InvalidToolCall, Message, ToolCall


@dataclass(frozen=True, slots=True)
class AssistantTurn:
    """A turn, read: the text without tool calls and special tokens, but with the thinking, and the calls.

    `invalid_tool_calls` are those that cannot be read, with what the model wrote, no letter of which is in the content.
    """

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    invalid_tool_calls: tuple[InvalidToolCall, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """The sentences for the model, one about each call that cannot be read."""
        return tuple(each["error"] for each in self.invalid_tool_calls)

    def message(self) -> Message:
        """Return the turn as a message of role `assistant`."""
        message: Message = {"role": "assistant", "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = list(self.tool_calls)
        if self.invalid_tool_calls:
            message["invalid_tool_calls"] = list(self.invalid_tool_calls)
        return message


class Reading:
    """Collects the calls of one text in their order, and those that cannot be read with their text.

    `start` and `end` are indices in the text: they bound what the model wrote for a call, marks included.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._calls: list[ToolCall] = []
        self._invalid: list[InvalidToolCall] = []
        self._kept_to = 0
        self.is_full = False

    @property
    def place(self) -> int:
        """The number of the next call, from 1."""
        return len(self._calls) + len(self._invalid) + 1

    def takes_another(self, start: int) -> bool:
        """Return whether one more call may be read. If not, that becomes an invalid call the first time."""
        if self.place > MAX_CALLS and not self.is_full:
            self.is_full = True
            self.note(f"only the first {MAX_CALLS} tool calls of a turn are read", start, len(self._text))
        return not self.is_full

    def note(self, sentence: str, start: int, end: int, position: int | None = None) -> None:
        """Add an invalid call with this sentence. Each part of the text is kept only once, with its first problem."""
        begin = max(start, min(self._kept_to, end))
        self._kept_to = max(self._kept_to, end)
        place = None if position is None or position < begin else min(position, end) - begin
        self._invalid.append({"text": self._text[begin:end], "error": sentence, "position": place})

    def problem(self, what: object, start: int, end: int) -> None:
        """Add an invalid call whose sentence begins with the number of the call."""
        position = what.position if isinstance(what, CallError) else None
        self.note(f"tool call {self.place} {what}", start, end, position)

    def add(self, value: Any, start: int, end: int) -> None:
        """Add a decoded value as a call, or as an invalid one."""
        try:
            self._calls.append(as_call(value))
        except CallError as error:
            self.problem(error, start, end)

    def done(self, content: str) -> AssistantTurn:
        """Return what was collected, with the content."""
        return AssistantTurn(content, tuple(self._calls), tuple(self._invalid))


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
    parse: Callable[[str], AssistantTurn]
    write: Callable[[str, Sequence[ToolCall]], str]


def _parse_hermes(text: str) -> AssistantTurn:
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


def _parse_llama3(text: str) -> AssistantTurn:
    tag = "<|python_tag|>"
    is_bare = bool(_BARE_CALL.match(text))
    start = 0 if is_bare else text.find(tag)
    if start < 0:
        return AssistantTurn(text)
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
            return AssistantTurn(text)  # JSON that is no call is an answer
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


def _parse_mistral(text: str) -> AssistantTurn:
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
LLAMA3_TAGGED = replace(
    LLAMA3, parse=lambda text: AssistantTurn(text) if _BARE_CALL.match(text) else _parse_llama3(text)
)
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
