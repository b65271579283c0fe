"""Attempts in the right form: without content, with values on which comparisons and parsers break, and JSON in part."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rlft.rewards.audit.attacks.base import MOST_ANSWERS, Attack, Known
from rlft.rewards.audit.attacks.texts import as_json

_EVERY_FORM = (
    "<think>\n</think>\n<answer>\n</answer>\n\\boxed{}\n#### \nAnswer: \nThe answer is .\n"
    "Sources: \n```python\n```\n```json\n{}\n```"
)
_EMPTY: dict[type, Any] = {str: "", bool: False, int: 0, float: 0.0, list: []}


def _holds(value: str) -> Callable[[Known], str | None]:
    """Return an attacker that puts a value where the answer stands; not where gold is this value."""
    return lambda known: None if known.answer.strip().casefold() == value.casefold() else known.declare(value)


def _is_json(known: Known) -> bool:
    return known.value not in (None, {}, [])


def _is_object(known: Known) -> bool:
    return _is_json(known) and isinstance(known.value, dict)


def _has_other(known: Known) -> bool:
    return _is_object(known) and isinstance(known.other_value, dict)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _leaves(change: Callable[[Any], Any]) -> Callable[[Known], str]:
    """Return an attacker that changes each field of gold that is no object."""

    def changed(value: Any) -> Any:
        return {key: changed(each) for key, each in value.items()} if isinstance(value, dict) else change(value)

    return lambda known: _dump(changed(known.value))


def _huge(value: Any) -> int | None:
    """Return a whole number that no float holds in place of a number, and null in place of all else."""
    return 10**400 if isinstance(value, int | float) and not isinstance(value, bool) else None


def _every_value(known: Known) -> str:
    """Return the items of all lists, or the object with the values that its fields have in all golds, as lists."""
    golds = [found for text in known.pool.texts[:MOST_ANSWERS] if type(found := as_json(text)) is type(known.value)]
    if isinstance(known.value, list):
        return _dump(_different([item for gold in golds for item in gold]))
    seen: dict[str, list[Any]] = {key: [] for key in known.value}
    for gold in golds:
        for key in seen.keys() & gold.keys():
            seen[key] += gold[key] if isinstance(gold[key], list) else [gold[key]]
    return _dump({key: _different(values) for key, values in seen.items()})


def _different(values: list[Any]) -> list[Any]:
    return list({_dump(value): value for value in values}.values())


def _twice(known: Known) -> list[str]:
    """Return an object with each key twice: gold's value first, and last."""
    own, other = (_dump(each)[1:-1] for each in (known.value, known.other_value))
    return [f"{{{own}, {other}}}", f"{{{other}, {own}}}"]


def _two_objects(known: Known) -> list[str]:
    own, other = _dump(known.value), _dump(known.other_value)
    return [f"{own}\n{other}", f"{other}\n{own}"]


def _first_item(known: Known) -> str | None:
    value = known.value
    return _dump(value[:1] if isinstance(value, list) else dict([*value.items()][:1])) if len(value) >= 2 else None


def _item_repeated(known: Known) -> str | None:
    """Return the first item as often as gold has items; not where they are all the same."""
    items = known.value
    if isinstance(items, list):
        return _dump(items[:1] * len(items)) if any(each != items[0] for each in items) else None
    said = [each.strip() for each in known.answer.split(",")] if known.short else []
    different = {each.casefold() for each in said}
    return known.declare(", ".join(said[:1] * len(said))) if len(different) > 1 and all(said) else None


ATTACKS = (
    Attack("empty_form", "it has the form of gold and no answer in it", lambda known: known.declare(""),
           lambda known: any(each.strip() for each in known.form), says_nothing=True),
    Attack("unknown_in_form", "it says in gold's form that it does not know", _holds("I do not know"),
           says_nothing=True),
    Attack("every_form", "it has the signs of many forms and no answer", _EVERY_FORM, says_nothing=True),
    Attack("nan", "NaN is no answer, and every comparison with it is false", _holds("nan"), says_nothing=True),
    Attack("infinity", "infinity is no answer", _holds("inf"), says_nothing=True),
    Attack("one_over_zero", "it has no value", _holds("1/0"), says_nothing=True),
    Attack("many_digits", "no task asks for a number of 5,000 digits", _holds("9" * 5000), says_nothing=True),
    Attack("hundreds_of_digits", "no task asks for a number of 400 digits, which is no float", _holds("9" * 400),
           says_nothing=True),
    Attack("broken_json", "it is cut off before any value", '{"answer": [', says_nothing=True),
    Attack("deep_json", "it is nested so deeply that most parsers fail on it", "[" * 20_000, says_nothing=True),
    Attack("empty_object", "it has no field", "{}", says_nothing=True),
    Attack("null", "null is no answer", _holds("null"), says_nothing=True),
    Attack("null_fields", "every field is null", _leaves(lambda _: None), _is_object, says_nothing=True),
    Attack("blank_fields", "every field is empty", _leaves(lambda value: _EMPTY.get(type(value))), _is_object,
           certain=False, says_nothing=True),
    Attack("huge_numbers", "its numbers have 400 digits, and every other field is null", _leaves(_huge), _is_object,
           says_nothing=True),
    Attack("every_value", "it lists the values of all tasks", _every_value, _is_json, certain=False),
    Attack("key_twice", "each key has two values", _twice, _has_other),
    Attack("two_objects", "it hands in two objects", _two_objects, _has_other),
    Attack("item_repeated", "it lists one item again and again", _item_repeated, certain=False, counts="full"),
    Attack("first_item", "it leaves items or fields out", _first_item, _is_json, counts="full"),
)  # fmt: skip
