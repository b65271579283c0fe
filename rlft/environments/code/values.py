"""Encodes plain Python values as JSON and decodes them, for a closed set of built-in types: only data can cross over.

A subclass is sent as the built-in type it derives from (a Counter as a dict, an IntEnum as an int), an iterator as what
it yields, a match of a regular expression as the tuple of its groups. This module runs inside the sandboxes, so it
imports nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

_SMALL = 1 << 53  # integers that every reader of JSON holds exactly are below it; others go as hexadecimal text
_TYPES = {kind.__name__: kind for kind in (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)}


class NotPlain(TypeError):
    """Raised for a value of a type that cannot be sent from one process to the other."""


def encode(value: Any) -> Any:
    """Return JSON for a value: itself, or [tag of its type, its content], such as `["t", [1, 2]]` for a tuple.

    Raises `NotPlain` for other types, `RecursionError` for what is nested too deep.
    """
    if value is None or value is True or value is False:
        return value
    kind = type(value)
    if kind is str:
        return value
    if kind is int:
        return value if -_SMALL < value < _SMALL else ["i", hex(value)]
    if kind is float:
        return ["f", value.hex()]
    return _encode_other(value)


def _encode_other(value: Any) -> Any:
    # Methods of the built-in types are called on the class, as the model's subclasses may override them.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return ["i", hex(int.__index__(value))]
    if isinstance(value, float):
        return ["f", float.hex(value)]
    if isinstance(value, complex):
        return ["c", [value.real.hex(), value.imag.hex()]]
    if isinstance(value, dict):
        return ["d", [[encode(key), encode(item)] for key, item in dict.items(value)]]
    for tag, kind in (("l", list), ("t", tuple), ("s", set), ("z", frozenset)):
        if isinstance(value, kind):
            return [tag, [encode(item) for item in kind.__iter__(value)]]  # type: ignore[arg-type]
    if isinstance(value, bytes | bytearray):
        return ["b" if isinstance(value, bytes) else "a", bytes(value).hex()]
    if isinstance(value, range):
        return ["r", [encode(part) for part in (value.start, value.stop, value.step)]]
    if value is Ellipsis:
        return ["e", 0]
    if isinstance(value, Iterator):
        return ["n", [encode(item) for item in value]]
    if isinstance(value, type) and value.__name__ in _TYPES:
        return ["y", value.__name__]
    if isinstance(value, re.Match):
        return ["t", [encode(group) for group in (value.group(), *value.groups())]]
    raise NotPlain(f"a {type(value).__name__} cannot be passed on")


def decode(data: Any) -> Any:
    """Return the value that `encode` wrote, which always has one of exactly the built-in types.

    Raises `ValueError`, `LookupError`, `TypeError` or `RecursionError` for anything else.
    """
    if data is None or isinstance(data, bool | int | str):
        return data
    if not isinstance(data, list) or len(data) != 2 or not isinstance(data[0], str) or data[0] not in _DECODE:
        raise ValueError("this is not an encoded value")
    return _DECODE[data[0]](data[1])


def _items(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise ValueError("items must be a list")
    return [decode(item) for item in data]


def _pairs(data: Any) -> dict[Any, Any]:
    return {decode(key): decode(item) for key, item in data}


_DECODE: dict[str, Callable[[Any], Any]] = {
    "i": lambda data: int(data, 16),
    "f": float.fromhex,
    "c": lambda data: complex(float.fromhex(data[0]), float.fromhex(data[1])),
    "d": _pairs,
    "l": _items,
    "t": lambda data: tuple(_items(data)),
    "s": lambda data: set(_items(data)),
    "z": lambda data: frozenset(_items(data)),
    "b": bytes.fromhex,
    "a": bytearray.fromhex,
    "r": lambda data: range(*_items(data)),
    "e": lambda data: Ellipsis,
    "y": lambda data: _TYPES[data],
    "n": lambda data: iter(_items(data)),
}
