"""Attempts at tasks whose gold is JSON: fields that are empty, listed, doubled or of another type."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from rlft.audit.attacks.kinds import Attack
from rlft.audit.attacks.known import Known
from rlft.audit.attacks.pool import MOST_ANSWERS
from rlft.audit.attacks.texts import as_json

_EMPTY: dict[type, Any] = {str: "", bool: False, int: 0, float: 0.0}


def _is_json(known: Known) -> bool:
    return known.value not in (None, {}, [])


def _is_object(known: Known) -> bool:
    return _is_json(known) and isinstance(known.value, dict)


def _has_other(known: Known) -> bool:
    return _is_object(known) and isinstance(known.other_value, dict)


def _is_list(known: Known) -> bool:
    return _is_json(known) and isinstance(known.value, list)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a JSON value with each field that is no object changed."""
    if isinstance(value, dict):
        return {key: _leaves(each, change) for key, each in value.items()}
    return change(value)


def _blank(value: Any) -> Any:
    return [] if isinstance(value, list) else _EMPTY.get(type(value))


def _huge(value: Any) -> int | None:
    """Return a whole number that no float holds in place of a number, and null in place of all else."""
    return 10**400 if isinstance(value, int | float) and not isinstance(value, bool) else None


def _every_value(known: Known) -> str:
    """Return the object with the values that its fields have in all golds, as lists."""
    seen: dict[str, list[Any]] = {}
    for text in known.pool.texts[:MOST_ANSWERS]:
        found = as_json(text)
        for key, value in found.items() if isinstance(found, dict) else ():
            seen.setdefault(key, []).extend(value if isinstance(value, list) else [value])
    return _dump({key: _different(seen.get(key, [value])) for key, value in known.value.items()})


def _every_item(known: Known) -> str:
    lists = (found for text in known.pool.texts[:MOST_ANSWERS] if isinstance(found := as_json(text), list))
    return _dump(_different(item for each in lists for item in each))


def _different(values: Iterable[Any]) -> list[Any]:
    return list({_dump(value): value for value in values}.values())


def _each_or_other(known: Known) -> str:
    other = known.other_value
    return _dump({key: f"{value} or {other.get(key, 'none')}" for key, value in known.value.items()})


def _twice(known: Known) -> list[str]:
    """Return an object with each key twice: gold's value first, and last."""
    own, other = (_dump(each)[1:-1] for each in (known.value, known.other_value))
    return [f"{{{own}, {other}}}", f"{{{other}, {own}}}"]


def _two_objects(known: Known) -> list[str]:
    own, other = _dump(known.value), _dump(known.other_value)
    return [f"{own}\n{other}", f"{other}\n{own}"]


def _denied_first(known: Known) -> str:
    return f"It would be wrong to say {_dump(known.value)}.\n{_dump(known.other_value)}"


def _denied_last(known: Known) -> str:
    return f"{_dump(known.other_value)}\nIt would be wrong to say {_dump(known.value)}."


def _first_item(known: Known) -> str | None:
    return _dump(known.value[:1]) if len(known.value) >= 2 else None


def _first_field(known: Known) -> str | None:
    return _dump(dict(list(known.value.items())[:1])) if len(known.value) >= 2 else None


def _item_repeated(known: Known) -> str | None:
    """Return the first item as often as gold has items; not where they are all the same."""
    items = known.value
    if isinstance(items, list):
        return _dump(items[:1] * len(items)) if any(each != items[0] for each in items) else None
    said = [each.strip() for each in known.answer.split(",")] if known.short else []
    different = {each.casefold() for each in said}
    return known.declare(", ".join(said[:1] * len(said))) if said and len(different) > 1 and all(said) else None


def _without_last_item(known: Known) -> str | None:
    return _dump(known.value[:-1]) if len(known.value) >= 3 else None


def _without_last_field(known: Known) -> str | None:
    return _dump(dict(list(known.value.items())[:-1])) if len(known.value) >= 3 else None


ATTACKS = (
    Attack("null_fields", "every field is null", lambda known: _dump(_leaves(known.value, lambda _: None)), _is_object,
           says_nothing=True),
    Attack("blank_fields", "every field is empty", lambda known: _dump(_leaves(known.value, _blank)), _is_object,
           certain=False, says_nothing=True),
    Attack("true_fields", "every field is true", lambda known: _dump(_leaves(known.value, lambda _: True)), _is_object,
           certain=False, says_nothing=True),
    Attack("huge_numbers", "its numbers have 400 digits, and every other field is null",
           lambda known: _dump(_leaves(known.value, _huge)), _is_object, says_nothing=True),
    Attack("keys_alone", "it lists the keys without values", lambda known: _dump(list(known.value)), _is_object,
           says_nothing=True),
    Attack("every_value", "each field lists the values of all tasks", _every_value, _is_object, certain=False),
    Attack("every_item", "it lists the items of all tasks", _every_item, _is_list, certain=False),
    Attack("each_or_other", "each field names two values", _each_or_other, _has_other),
    Attack("key_twice", "each key has two values", _twice, _has_other),
    Attack("two_objects", "it hands in two objects", _two_objects, _has_other),
    Attack("object_denied_first", "it hands in another object", _denied_first, _has_other, certain=False),
    Attack("object_denied_last", "it hands in another object", _denied_last, _has_other, certain=False),
    Attack("item_repeated", "it lists one item again and again", _item_repeated, certain=False, counts="full"),
    Attack("first_item", "it leaves items out", _first_item, _is_list, counts="full"),
    Attack("first_field", "it leaves fields out", _first_field, _is_object, counts="full"),
    Attack("without_last_item", "it leaves one item out", _without_last_item, _is_list, counts="never"),
    Attack("without_last_field", "it leaves one field out", _without_last_field, _is_object, counts="never"),
)  # fmt: skip
