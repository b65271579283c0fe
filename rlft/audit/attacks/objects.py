"""Attempts in the right form: without content, with values on which comparisons and parsers break, and JSON in part.

Objects have fields that are empty, listed, doubled or of another type (`OBJECTS`), or one field is wrong, and its right
value stands in another one (`FIELDS`). Who looks for a value in the whole text finds it there. That is told apart from
partial credit by the same object without the right value, and from a field that does not count, where that object is
paid like gold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any

from rlft.audit.attacks.attack import MOST_ANSWERS, Attack, Known
from rlft.audit.attacks.texts import are_near, as_json

_EVERY_FORM = (
    "<think>\n</think>\n<answer>\n</answer>\n\\boxed{}\n#### \nAnswer: \nThe answer is .\n"
    "Sources: \n```python\n```\n```json\n{}\n```"
)


def _holds(value: str) -> Callable[[Known], str | None]:
    """Return an attacker that puts a value where the answer stands; not where gold is this value."""
    return lambda known: None if known.answer.strip().casefold() == value.casefold() else known.declare(value)


def _has_form(known: Known) -> bool:
    return any(each.strip() for each in known.form)


FORMS = (
    Attack("empty_form", "it has the form of gold and no answer in it", lambda known: known.declare(""), _has_form,
           says_nothing=True),
    Attack("unknown_in_form", "it says in gold's form that it does not know", _holds("I do not know"),
           says_nothing=True),
    Attack("every_form", "it has the signs of many forms and no answer", lambda known: _EVERY_FORM, says_nothing=True),
    Attack("nan", "NaN is no answer, and every comparison with it is false", _holds("nan"), says_nothing=True),
    Attack("infinity", "infinity is no answer", _holds("inf"), says_nothing=True),
    Attack("one_over_zero", "it has no value", _holds("1/0"), says_nothing=True),
    Attack("many_digits", "no task asks for a number of 5,000 digits", _holds("9" * 5000), says_nothing=True),
    Attack("hundreds_of_digits", "no task asks for a number of 400 digits, which is no float", _holds("9" * 400),
           says_nothing=True),
    Attack("broken_json", "it is cut off before any value", lambda known: '{"answer": [', says_nothing=True),
    Attack("deep_json", "it is nested so deeply that most parsers fail on it", lambda known: "[" * 20_000,
           says_nothing=True),
    Attack("empty_object", "it has no field", lambda known: "{}", says_nothing=True),
    Attack("empty_list", "it has no item", lambda known: "[]", says_nothing=True),
    Attack("null", "null is no answer", _holds("null"), says_nothing=True),
)  # fmt: skip


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


OBJECTS = (
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


MOST_FIELDS = 6
"""How many fields of a task are tried at most; each takes two attempts."""
_SPARE = "note"  # the field that is added where none holds a text
Path = tuple[str, ...]


def _places(value: dict[str, Any], above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the place and the value of each field that is a text or a number, those of inner objects too."""
    for key, each in value.items():
        if isinstance(each, dict):
            yield from _places(each, (*above, key))
        elif isinstance(each, str | int | float) and not isinstance(each, bool) and str(each).strip():
            yield (*above, key), each


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _with(value: dict[str, Any], path: Path, new: Any) -> dict[str, Any]:
    changed = deepcopy(value)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return changed


def _wrong(known: Known, path: Path, own: Any) -> Any:
    """Return what another task has there, `None` if all have the same."""
    pool = (as_json(text) for text in known.pool.texts[:MOST_ANSWERS])
    for other in (known.other_value, *pool):
        found = _at(other, path)
        holds = str(found) in str(own) or str(own) in str(found)
        if type(found) is type(own) and not holds and not are_near(found, own):
            return found
    return None


def _changed(known: Known) -> list[tuple[dict[str, Any], Path, Any]]:
    """Return the object with one field wrong, which field that is, and what would be right there."""
    places = [(path, own, _wrong(known, path, own)) for path, own in _places(known.value)]
    some = [each for each in places if each[2] is not None][:MOST_FIELDS]
    return [(_with(known.value, path, wrong), path, own) for path, own, wrong in some]


def _elsewhere(known: Known, changed: dict[str, Any], path: Path, own: Any) -> dict[str, Any]:
    """Return the object with the right value behind the longest text of another field."""
    texts = [(other, text) for other, text in _places(known.value) if other != path and isinstance(text, str)]
    if not texts:
        return {**changed, _SPARE: str(own)}
    place, text = max(texts, key=lambda each: len(each[1]))
    return _with(changed, place, f"{text} {own}")


def _wrong_field(known: Known) -> list[str]:
    return [_dump(changed) for changed, _, _ in _changed(known)]


def _field_elsewhere(known: Known) -> list[str]:
    return [_dump(_elsewhere(known, *each)) for each in _changed(known)]


FIELDS = (
    Attack("wrong_field", "one field is wrong", _wrong_field, _is_object, certain=False, counts="control"),
    Attack("field_elsewhere", "one field is wrong, and its value stands in another", _field_elsewhere, _is_object,
           certain=False, counts="above_control", control="wrong_field"),
)  # fmt: skip
