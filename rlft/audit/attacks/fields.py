"""Attempts at tasks whose gold is a JSON object: one field is wrong, and its right value stands in another one.

Who looks for a value in the whole text finds it there. That is told apart from partial credit by the same object
without the right value, and from a field that does not count, where that object is paid like gold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from rlft.audit.attacks.kinds import Attack
from rlft.audit.attacks.known import Known
from rlft.audit.attacks.made import are_near
from rlft.audit.attacks.pool import MOST_ANSWERS
from rlft.audit.attacks.texts import as_json

MOST_FIELDS = 6
"""How many fields of a task are tried at most; each takes two attempts."""
_SPARE = "note"  # the field that is added where none holds a text
Path = tuple[str, ...]


def _is_object(known: Known) -> bool:
    return isinstance(known.value, dict) and bool(known.value)


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


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _wrong_field(known: Known) -> list[str]:
    return [_dump(changed) for changed, _, _ in _changed(known)]


def _field_elsewhere(known: Known) -> list[str]:
    return [_dump(_elsewhere(known, *each)) for each in _changed(known)]


ATTACKS = (
    Attack("wrong_field", "one field is wrong", _wrong_field, _is_object, certain=False, counts="control"),
    Attack("field_elsewhere", "one field is wrong, and its value stands in another", _field_elsewhere, _is_object,
           certain=False, counts="above_control", control="wrong_field"),
)  # fmt: skip
