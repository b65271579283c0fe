"""Finds values that no setting can hold, wherever they stand in a config: they cannot be stored with a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

DEEPEST = 50  # levels of maps and lists
LARGEST = 2**63  # no integer of a database or of torch is as large


def wrong_values(content: Any, path: str = "", depth: int = 0) -> Iterator[str]:
    """Yield a sentence for each value that cannot be stored as JSON and come back as it was: `path: what is wrong`."""
    if depth > DEEPEST:
        yield f"{path:.80}…: more than {DEEPEST} maps and lists in each other; make it flatter"
    elif isinstance(content, Mapping):
        for key, value in content.items():
            place = f"{path}.{key!s:.80}" if path else f"{key!s:.80}"
            if not isinstance(key, str):
                yield f"{place}: the key {key!r:.80} is no text; put it in quotes"
            elif problem := _of_text(key):
                yield f"{place!a}: the key {problem}"
            else:
                yield from wrong_values(value, place, depth + 1)
    elif isinstance(content, list | tuple):
        for number, value in enumerate(content):
            yield from wrong_values(value, f"{path}[{number}]", depth + 1)
    elif problem := _of_value(content):
        yield f"{path or 'the whole config'}: {problem}"


def _of_value(value: Any) -> str | None:
    match value:
        case bool() | None:
            return None
        case str():
            return _of_text(value)
        case int():
            return None if abs(value) < LARGEST else "the number is larger than 2^63; no setting takes such a one"
        case float():
            return None if math.isfinite(value) else f"{value} is no number that can be computed with; write another"
        case date():  # a datetime is one, too
            return f"{value} is read as a date, of which a run stores the text; put it in quotes"
        case bytes():
            return "binary content cannot be stored with a run; put it into a file, and name that"
        case set():
            return "a set has no order, and cannot be stored with a run; write a list"
        case _:
            return f"a {type(value).__name__} cannot be stored with a run; write text, a number, a list or a map"


def _of_text(text: str) -> str | None:
    if "\0" in text:
        return "holds a null byte, which no path, database or tokenizer takes; remove it"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "holds half of a surrogate pair, which UTF-8 cannot hold; write the character itself"
    return None
