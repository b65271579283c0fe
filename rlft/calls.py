"""Reads one tool call: strict JSON with a name and an object of arguments."""

from __future__ import annotations

import json
import math
from typing import Any

from rlft.files import each_key_once
from rlft.types import ToolCall

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
