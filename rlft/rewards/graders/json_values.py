"""Reads JSON from an attempt: the one object that a text declares as its answer, and a value in it by its path."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any

from rlft.files import each_key_once

_DECODER = json.JSONDecoder()
_MOST_BRACES = 100


def read_json_object(text: str) -> dict[str, Any] | None:
    """Return the object from a text's first brace to its last, or `None` if that is not exactly one JSON object.

    The result is also `None` if any object has a key twice (its two values would be two answers), or if there is a NaN
    or an infinity, such as 1e999. There may be prose and code fences around the object, but no braces in them.
    """
    try:
        value = json.loads(
            text[text.find("{") : text.rfind("}") + 1],
            object_pairs_hook=each_key_once,
            parse_constant=_finite,
            parse_float=_finite,
        )
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def holds_json_object(text: str) -> bool:
    """Return whether a text has a JSON object anywhere in it, or so many braces that nobody can tell."""
    place = text.find("{")
    for _ in range(_MOST_BRACES):
        if place < 0:
            return False
        try:
            _DECODER.raw_decode(text, place)
            return True
        except RecursionError:
            return True
        except ValueError:
            place = text.find("{", place + 1)
    return place >= 0


def _finite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise ValueError(f"{number} is no finite number")
    return value


LONGEST_PATH = 500
"""The most characters of a path."""
MISSING: Any = object()
"""What a path that leads nowhere comes to; `None` is a value of JSON."""


def check_path(path: str) -> str:
    """Return the path. Raises ValueError for what is no JSONPath (RFC 9535, without filters)."""
    if len(path) > LONGEST_PATH:
        raise ValueError(f"a path has at most {LONGEST_PATH} characters, this one {len(path)}")
    try:
        _parsed(path)
    except Exception as error:  # the lexer and the parser have classes of their own
        raise ValueError(
            f"{path!r:.80} is no JSON path: {error!s:.80}; write $.field, $.list[0] or $.list[*]"
        ) from None
    return path


def value_at(value: Any, path: str) -> Any:
    """Return what a checked path leads to, `MISSING` if nothing is there.

    Of a path with `*`, `..`, `:` or `,` outside of quotes it is the list of all values, which may be empty.
    """
    try:
        found = [match.value for match in _parsed(path).find(value)]
    except (RecursionError, TypeError, KeyError, IndexError, AttributeError):  # the value has another form
        return MISSING
    if _is_of_many(_parsed(path)):
        return found
    return found[0] if found else MISSING


@lru_cache(maxsize=256)
def _parsed(path: str) -> Any:
    from jsonpath_ng.parser import parse

    return parse(path)


def _is_of_many(node: Any) -> bool:
    """Return whether a parsed path may lead to several values by its form."""
    from jsonpath_ng import jsonpath

    if isinstance(node, jsonpath.Fields):
        return len(node.fields) > 1 or "*" in node.fields
    if isinstance(node, jsonpath.Index):
        return len(node.indices) > 1
    if isinstance(node, jsonpath.Child):
        return _is_of_many(node.left) or _is_of_many(node.right)
    return not isinstance(node, jsonpath.Root | jsonpath.This | jsonpath.Parent)
