"""Reads the one JSON object that a text declares as its answer."""

from __future__ import annotations

import json
import math
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
