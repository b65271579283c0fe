"""How a specification writes a full answer: its template `gold`, filled in from a task's row."""

from __future__ import annotations

import json
from collections.abc import Iterator

from rlft.graders.plain import plain
from rlft.specification.attempt import Attempt
from rlft.specification.templates import PLACE, value_of

_DECODER = json.JSONDecoder()


def written_gold(template: str, attempt: Attempt) -> str:
    """Return the full answer to the task of an attempt, which says nothing.

    A template that is one place and no text is its value, as JSON unless it is a text. What is filled into a string
    within JSON is escaped, so that an answer with quotes in it leaves the whole JSON. Raises TaskError for a column
    that the task's row has not.
    """
    if PLACE.fullmatch(template.strip()):
        value = value_of(template, attempt)
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    filled, end = list[str](), 0
    for match, is_quoted in zip(PLACE.finditer(template), _quoted(template), strict=True):
        said = plain(value_of(match[0], attempt))
        filled += [template[end : match.start()], json.dumps(said, ensure_ascii=False)[1:-1] if is_quoted else said]
        end = match.end()
    return "".join([*filled, template[end:]])


def _quoted(template: str) -> Iterator[bool]:
    """Yield for each place whether it stands in a string of JSON that the template holds."""
    form, places = "", list[int]()
    end = 0
    for match in PLACE.finditer(template):
        form += template[end : match.start()]
        places.append(len(form))
        form, end = form + "0", match.end()  # a number is JSON, and so is a string with one in it
    form += template[end:]
    quoted = {place for begin, end in _json_in(form) for place in _in_strings(form, begin, end)}
    yield from (place in quoted for place in places)


def _json_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield where objects and lists of JSON begin and end in a text."""
    place = 0
    while place < len(text):
        end = place + 1
        if text[place] in "{[":
            try:
                end = _DECODER.raw_decode(text, place)[1]
                yield place, end
            except (ValueError, RecursionError):
                end = place + 1
        place = end


def _in_strings(text: str, begin: int, end: int) -> Iterator[int]:
    """Yield the places between two that stand in strings of JSON."""
    inside = escaped = False
    for place in range(begin, end):
        if escaped:
            escaped = False
        elif text[place] == "\\":
            escaped = True
        elif text[place] == '"':
            inside = not inside
        if inside:
            yield place
