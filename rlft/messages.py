"""Reads messages in the forms that people and programs use, and converts them to the one form of `rlft.types.Message`.

That form is OpenAI's, which `apply_chat_template` takes too, but with arguments as an object:
`{"id": ..., "type": "function", "function": {"name": ..., "arguments": {...}}}`.

A tool call is read from strict JSON with a name and an object of arguments.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel

from rlft.files import each_key_once
from rlft.texts.secrets import hide
from rlft.types import Message, ToolCall


class MessageError(ValueError):
    """A message that cannot be read. The text begins with its number, and says what is wrong and what to write."""


def as_messages(values: Any) -> tuple[Message, ...]:
    """Return the messages of a conversation in the form of `rlft.types.Message`; applied again it changes nothing.

    A call may be OpenAI's, or `{name, arguments}` alone, with arguments as an object or as JSON text. Content may be a
    list of text parts, and absent beside calls; `developer` becomes `system`. Objects of a client library are read as
    the dicts they stand for. A call without an id gets one (`call00000`, the next free number: nine characters, as
    Mistral's templates want them), and a tool's message without `tool_call_id` or `name` that of its call.

    Raises MessageError, which names the message.
    """
    if isinstance(values, str | Mapping) or not isinstance(values, Sequence):
        raise MessageError(f"{type(values).__name__} {values!r:.80} is no list of messages")
    messages: list[Message] = []
    for number, value in enumerate(values, start=1):
        try:
            messages.append(_as_message(value))
        except MessageError as error:
            raise MessageError(f"message {number} {error}") from error
    _link(messages)
    return tuple(messages)


def as_read(message: Message) -> dict[str, Any]:
    """Return the message as chat templates get it: without `failed`, which is for people and rewards alone."""
    return {key: value for key, value in message.items() if key != "failed"}


def as_openai(message: Message) -> dict[str, Any]:
    """Return the message in OpenAI's form: arguments are JSON text, and there is no `failed`."""
    result = as_read(message)
    if calls := message.get("tool_calls"):
        result["tool_calls"] = [{**call, "function": _with_text(call)} for call in calls]
    return result


def printable(text: str) -> str:
    """Return a text that every tokenizer takes and anyone may read.

    A lone surrogate, as in the name of a file that cannot be decoded, becomes a question mark. The value of an
    environment variable that a setting names becomes `***`.
    """
    return hide(text.encode("utf-8", "replace").decode("utf-8"))


def written(message: Message) -> str:
    """Return the content of a message and, below it, the text of the calls that could not be read."""
    broken = [call["text"] for call in message.get("invalid_tool_calls", ()) if call["text"]]
    return "\n".join([message["content"], *broken] if message["content"] else broken)


def _with_text(call: ToolCall) -> dict[str, str]:
    function = call["function"]
    return {"name": function["name"], "arguments": json.dumps(function["arguments"], ensure_ascii=False)}


def _as_message(value: Any) -> Message:
    value = _plain(value)
    if not isinstance(value, Mapping) or not isinstance(value.get("role"), str) or not value["role"]:
        raise MessageError('has no role; write {"role": "user", "content": "..."}')
    # Tables give every message every key that any message has; the empty ones were never written.
    message: dict[str, Any] = {key: each for key, each in value.items() if each is not None}
    if message["role"] == "function" or "function_call" in message:
        raise MessageError(
            'has the old function_call; write tool_calls: [{"id": ..., "type": "function", "function": {"name": ..., '
            '"arguments": ...}}], and answer it by a message of role tool with its tool_call_id'
        )
    if message["role"] == "developer":
        message["role"] = "system"
    calls = message.pop("tool_calls", [])
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        raise MessageError(f"has tool_calls that are no list but {type(calls).__name__}")
    if calls:
        message["tool_calls"] = [_as_call(call, place) for place, call in enumerate(calls, start=1)]
        message.setdefault("content", "")
    message["content"] = _text(message.get("content"))
    return cast(Message, message)


def _as_call(value: Any, place: int) -> ToolCall:
    try:
        return as_call(read_json(json.dumps(value, ensure_ascii=False, default=_plain_within), 0)[0])
    except (CallError, TypeError, ValueError, RecursionError) as error:
        why = f"it {error}" if isinstance(error, CallError) else str(error)
        way_out = 'write "function": {"name": "search", "arguments": {"query": "..."}}'
        raise MessageError(f"has tool call {place} that cannot be read: {why}; {way_out}") from error


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence) or not content:
        raise MessageError("has no text as content")
    texts: list[str] = []
    for part in map(_plain, content):
        kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
        if kind != "text" or not isinstance(part.get("text"), str):
            raise MessageError(
                f"has a part of type {kind} in its content; only parts of text can be read: leave it out"
            )
        texts.append(part["text"])
    return "".join(texts)


def _plain(value: Any) -> Any:
    return value.model_dump() if isinstance(value, BaseModel) else value


def _plain_within(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _link(messages: Sequence[Message]) -> None:
    """Give ids to calls that have none, and to the results that answer them, in order where these name no call."""
    calls = [call for message in messages for call in message.get("tool_calls", ())]
    given = {call["id"] for call in calls}
    free = (name for number in itertools.count() if (name := f"call{number:05d}") not in given)
    for call in calls:
        call["id"] = call["id"] or next(free)
    waiting: list[ToolCall] = []
    for message in messages:
        if message["role"] != "tool":
            waiting = list(message.get("tool_calls", ()))
            continue
        named = message.get("tool_call_id")
        answered = next((call for call in waiting if not named or call["id"] == named), None)
        if answered is not None:
            waiting.remove(answered)
            message["tool_call_id"] = answered["id"]
            message.setdefault("name", answered["function"]["name"])


MAX_CALLS = 64  # of one turn
MAX_CHARACTERS = 1_000_000  # of one turn
MAX_DEPTH = 64  # of nested objects and lists; arguments are checked against schemas by recursion
PLACE = ">>>"  # is put in front of the character at which a text could not be read any further
_BEFORE, _BEHIND = 60, 20  # characters around that place which a message shows


class CallError(ValueError):
    """A call that cannot be read. The message is for the model and goes on from words such as "tool call 2".

    `position` is the index in the text at which reading stopped, `None` where no single place is wrong.
    """

    def __init__(self, what: str, position: int | None = None) -> None:
        super().__init__(what)
        self.position = position


def marked(text: str, position: int | None) -> str:
    """Return the text with `PLACE` in front of the character at `position`; as it is if that is `None`."""
    return text if position is None else f"{text[:position]}{PLACE}{text[position:]}"


def read_json(text: str, position: int) -> tuple[Any, int]:
    """Read the JSON value at `position`, and return it with the index at which it ends.

    Raises CallError if there is none, and for a key that occurs twice, numbers that are not finite or have more than
    1000 digits, lone surrogates, and depth beyond `MAX_DEPTH`.
    """
    try:
        value, end = _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        what = f"is not JSON: {error.msg.removesuffix(' at')} at character {error.pos - position + 1}"
        raise CallError(f"{what}, marked {PLACE}: {_around(text, position, error.pos)}", error.pos) from error
    except RecursionError as error:
        raise CallError(f"is nested deeper than {MAX_DEPTH} levels") from error
    except ValueError as error:
        raise CallError(f"is not JSON: {error}") from error
    _check_value(value)
    return value, end


def as_call(value: Any) -> ToolCall:
    """Return a decoded value as a call. Its id is the one that was written, or else empty.

    Arguments may be named `parameters`, may be a string of JSON, and may be absent; the call may be the value of
    `function` in another object, as in OpenAI's form. Raises CallError for anything else.
    """
    if not isinstance(value, dict):
        raise CallError(f"is not an object but {_kind(value)}")
    function = value.get("function")
    inner = function if isinstance(function, dict) else value
    name = inner.get("name", function)
    if not isinstance(name, str) or not name.strip():
        raise CallError('has no "name"')
    if "arguments" in inner and "parameters" in inner:
        raise CallError('has "arguments" and "parameters"; give one')
    given = value.get("id")
    arguments = _arguments(inner.get("arguments", inner.get("parameters")))
    return make_call(name, arguments, given if isinstance(given, str) else "")


def make_call(name: str, arguments: dict[str, Any], id: str) -> ToolCall:
    """Return a call in the form that messages have."""
    return {"type": "function", "id": id, "function": {"name": name, "arguments": arguments}}


def _arguments(value: Any) -> dict[str, Any]:
    if isinstance(value, str) and value.strip():
        stripped = value.strip()
        try:
            value, end = read_json(stripped, 0)
        except CallError as error:  # no position, as that of `error` is one in the string and not in the call
            raise CallError(f"has arguments in a string that {error}") from error
        if end != len(stripped):
            raise CallError("has arguments in a string that is not JSON alone")
    if value is None or value == "":
        return {}
    if not isinstance(value, dict):
        raise CallError(f'has "arguments" that are not an object but {_kind(value)}')
    return value


def _around(text: str, start: int, position: int) -> str:
    """Return the text around a position, in one line and with the place marked; it begins no earlier than `start`."""
    first, last = max(start, position - _BEFORE), position + _BEHIND
    shown = marked(text[first:last], position - first).replace("\n", "\\n")
    return f"{'...' * (first > start)}{shown}{'...' * (last < len(text))}"


def _kind(value: Any) -> str:
    names = {str: "a string", list: "a list", bool: "a boolean", int: "a number", float: "a number", dict: "an object"}
    return names.get(type(value), "null")


def _number(text: str) -> float:
    """Return a number of JSON. Raises ValueError for NaN and Infinity, and for 1e999, which `json` would take."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:100]} is no finite number")
    return number


def _integer(text: str) -> int:
    if len(text) > 1000:  # Python refuses more than 4,300 digits, but in words that are not meant for a model
        raise ValueError("a number has more than 1000 digits")
    return int(text)


_DECODER = json.JSONDecoder(
    object_pairs_hook=each_key_once, parse_float=_number, parse_int=_integer, parse_constant=_number
)


def _check_value(value: Any) -> None:
    """Raise CallError for a value that is nested too deep or has a string with a lone surrogate in it."""
    level, depth = [value], 0
    while level:
        if depth > MAX_DEPTH:
            raise CallError(f"is nested deeper than {MAX_DEPTH} levels")
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below += [*each, *each.values()]
            elif isinstance(each, list):
                below += each
            elif isinstance(each, str) and not _is_unicode(each):
                raise CallError("is not JSON: a string has half a surrogate pair")
        level, depth = below, depth + 1


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
