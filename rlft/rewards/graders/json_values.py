"""Reads JSON from an attempt: the one object that a text declares, and a value in it by its path.

Values are checked against JSON schemas, whose patterns are cut at a limit of seconds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

import jsonschema
from jsonschema.exceptions import best_match
from jsonschema.validators import extend
from referencing import Registry

from rlft.files import each_key_once
from rlft.rewards.graders.plain import check_pattern, find

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


_SECONDS = 1.0


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise ValueError for what is no JSON schema (draft 2020-12), or refers to another file, address or schema."""
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        place = ".".join(map(str, error.absolute_path)) or "the schema"
        raise ValueError(f"it is no JSON schema: {place}: {error.message:.200}") from None
    for key, value in _keywords(schema):
        if key == "patternProperties":
            raise ValueError(f"{key} is not taken, as its patterns cannot be cut; write the fields under properties")
        if key == "pattern" and isinstance(value, str):
            check_pattern(value)
        if key in ("$ref", "$dynamicRef") and not str(value).startswith("#"):
            raise ValueError(f"{key} {value!r:.80} leads out of the schema; write what it refers to under $defs")


def schema_problem(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a value first, with its place, or `None` if it fits a checked schema.

    Multiples are those of decimals: 19.99 is one of 0.01. Nothing is fetched. Raises
    `rlft.rewards.graders.plain.PatternTooSlow` for a pattern that takes longer than a second.
    """
    # A schema that names its draft would be checked by jsonschema's own class for it, whose patterns cannot be cut.
    unnamed = {name: each for name, each in schema.items() if name != "$schema"}
    try:
        error = best_match(_Bounded(unnamed, registry=Registry()).iter_errors(value))
    except RecursionError:
        return "it is nested too deeply"
    if error is None:
        return None
    place = ".".join(map(str, error.absolute_path))
    return f"{place}: {error.message:.200}" if place else f"{error.message:.200}"


def unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[jsonschema.ValidationError]:
    """Check JSON schema's keyword `uniqueItems` in linear time.

    jsonschema's own check compares all pairs where the items cannot be sorted, and the items are a model's.
    """
    del schema
    if wanted and validator.is_type(instance, "array") and len(set(map(_key, instance))) < len(instance):
        yield jsonschema.ValidationError(f"{instance!r:.200} has a value twice")


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[jsonschema.ValidationError]:
    del schema
    if validator.is_type(instance, "string") and find(pattern, instance, seconds=_SECONDS) is None:
        yield jsonschema.ValidationError(f"{instance!r:.80} does not match {pattern!r:.80}")


def _multiple_of(validator: Any, wanted: float, instance: Any, schema: Any) -> Iterator[jsonschema.ValidationError]:
    """Compare decimals: as floats 19.99 / 0.01 is not whole, and a whole number of 400 digits is none."""
    del schema
    if validator.is_type(instance, "number") and _exact(instance) % _exact(wanted):
        yield jsonschema.ValidationError(f"{instance!r:.80} is not a multiple of {wanted}")


def _exact(number: float) -> Fraction:
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def _key(value: Any) -> Hashable:
    """Return a hashable key that is the same for equal JSON values: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, Mapping):
        return frozenset((name, _key(each)) for name, each in value.items())
    if isinstance(value, list):
        return tuple(map(_key, value))
    return isinstance(value, bool), value


def _keywords(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of all maps within a schema."""
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            yield str(key), value
            yield from _keywords(value)
    elif isinstance(schema, list):
        for each in schema:
            yield from _keywords(each)


_Bounded: Any = extend(
    jsonschema.Draft202012Validator,
    {"uniqueItems": unique_items, "pattern": _pattern, "multipleOf": _multiple_of},
)
