"""Checks JSON values that a model wrote against JSON schemas, in a time that grows with the value alone."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import jsonschema
from jsonschema.exceptions import best_match
from jsonschema.validators import extend
from referencing import Registry

from rlft.graders.limited import check_pattern, find

_SECONDS = 1.0


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise ValueError for what is no JSON schema (draft 2020-12), or refers to another file or address."""
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

    Nothing is fetched. Raises `rlft.graders.limited.PatternTooSlow` for a pattern that takes longer than a second.
    """
    try:
        error = best_match(_Bounded(schema, registry=Registry()).iter_errors(value))
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
    if validator.is_type(instance, "string") and not find(pattern, instance, seconds=_SECONDS):
        yield jsonschema.ValidationError(f"{instance!r:.80} does not match {pattern!r:.80}")


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


_Bounded: Any = extend(jsonschema.Draft202012Validator, {"uniqueItems": unique_items, "pattern": _pattern})
