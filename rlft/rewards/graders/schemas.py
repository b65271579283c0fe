"""Checks JSON values that a model wrote against JSON schemas, whose patterns are cut at a limit of seconds."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import jsonschema
from jsonschema.exceptions import best_match
from jsonschema.validators import extend
from referencing import Registry

from rlft.rewards.graders.limited import check_pattern, find

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
    `rlft.rewards.graders.limited.PatternTooSlow` for a pattern that takes longer than a second.
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
