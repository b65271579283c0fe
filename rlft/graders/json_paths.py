"""Finds a value in a JSON value by a path such as `$.people[0].name`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

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
