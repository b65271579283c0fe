"""Finds the fields of a row by name, formats them by a template, and turns values into plain JSON.

A `FieldError` says why one row is unusable; ingestion makes a `BadRow` with its place of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from difflib import get_close_matches
from string import Formatter
from typing import Any

import numpy as np

from rlft.errors import TaskError

DEEPEST = 100
"""How many lists and objects may stand within each other: what reads the value again has limits of its own."""


class FieldError(ValueError):
    """A row that is unusable; the message says why, in words that follow the place of the row."""


def is_template(field: str) -> bool:
    """Return whether a configured field is a template (`'{question}\\nAnswer:'`) and not the name of a column."""
    return "{" in field or "}" in field


def check_template(field: str | None, setting: str) -> None:
    """Raise `TaskError` if a configured template cannot be parsed; `setting` is its name in the config."""
    try:
        list(Formatter().parse(field or ""))
    except ValueError as error:
        raise TaskError(
            f"{field!r} is not a template: {error}", where=setting, fix="write {{ and }} for braces that stay braces"
        ) from error


def find_field(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of a column, or of a nested field by its path (`reward_model.ground_truth`).

    Raises `FieldError`, which lists the fields that the row has, if it does not have this one.
    """
    if name in row:
        return row[name]
    value: Any = row
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise FieldError(f"has no field {name!r} ({_fields(row, name)})")
        value = value[part]
    return value


def _fields(row: Mapping[str, Any], name: str) -> str:
    """Return the fields that a row has instead, and the one that is probably meant."""
    inner = [f"{outer}.{key}" for outer, value in row.items() if isinstance(value, Mapping) for key in value]
    near = get_close_matches(name, [*map(str, row), *inner], n=1)
    has = f"it has: {', '.join(map(str, row)) or 'nothing'}"
    return f"{has}; did you mean {near[0]}?" if near else has


class _RowFormatter(Formatter):
    """Formats as `str.format` does, with `{field}` and `{field[key]}`; lists and objects become JSON text."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        try:
            value, used = super().get_field(field_name, args, kwargs)
        except (LookupError, AttributeError, TypeError, ValueError) as error:
            raise FieldError(
                f"has no field {{{field_name}}} for the template ({_fields(kwargs, field_name)})"
            ) from error
        if value is None:
            raise FieldError(f"has nothing in field {{{field_name}}} of the template")
        return (json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value), str(used)


def format_template(row: Mapping[str, Any], template: str) -> str:
    """Fill a template with the fields of a row of JSON values.

    Raises `FieldError` if the template names a field that the row does not have, or that is null there.
    """
    try:
        return _RowFormatter().vformat(template, (), row)
    except FieldError:
        raise
    except (ValueError, TypeError) as error:
        raise FieldError(f"does not fit the template: {error}") from error


def template_values(row: Mapping[str, Any], template: str) -> list[str]:
    """Return the values of the fields that a template names, as text and in the order of their names, each once.

    Raises `FieldError` as `format_template` does.
    """
    formatter = _RowFormatter()
    names = sorted({name for _, name, _, _ in formatter.parse(template) if name is not None})
    return [str(formatter.get_field(name, (), row)[0]) for name in names]


def to_json(value: Any, name: str, depth: int = 0) -> Any:
    """Return a value as plain JSON: arrays become lists, dates ISO strings, NaN `None`, decimals and keys text.

    `name` is the column, for the message, and `depth` how deep the value is nested already. Raises `FieldError` for
    what JSON cannot hold: bytes, infinities, lone surrogates; and for values that are nested more than `DEEPEST` times.
    """
    if depth > DEEPEST:
        raise FieldError(f"has lists or objects nested more than {DEEPEST} times in field {name!r}")
    match value:
        case None | bool():
            return value
        case str():
            return _valid_text(value, name)
        case np.datetime64():
            return None if np.isnat(value) else str(value)
        case np.generic() | np.ndarray():
            return to_json(value.tolist(), name, depth)
        case int():
            return value
        case float():
            if math.isinf(value):
                raise FieldError(f"has {value} in field {name!r}, which JSON cannot hold")
            return None if math.isnan(value) else value
        case Mapping():
            return {_valid_text(str(key), name): to_json(item, name, depth + 1) for key, item in value.items()}
        case list() | tuple():
            return [to_json(item, name, depth + 1) for item in value]
        case datetime() | date() | time():
            return None if value != value else value.isoformat()  # pandas' NaT is a datetime that differs from itself
        case Decimal():
            return str(value) if value.is_finite() else None
        case _:
            raise FieldError(f"has a {type(value).__name__} in field {name!r}, which JSON cannot hold: drop the column")


def _valid_text(text: str, name: str) -> str:
    """Return the text itself. Raises `FieldError` if it has a lone surrogate, which UTF-8 cannot hold."""
    try:
        if not text.isascii():  # checked first, as most text is ASCII and need not be encoded
            text.encode()
    except UnicodeEncodeError as error:
        raise FieldError(f"has half a surrogate pair in field {name!r}: the text was cut inside a character") from error
    return text
