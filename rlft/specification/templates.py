"""Texts with places such as `{{item.answer}}` and `{{sample.output_text}}`, which are filled in for each attempt.

The form is that of OpenAI's graders. What is filled in is never read as a template again: an attempt that says
`{{item.answer}}` says just that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

from rlft.errors import TaskError
from rlft.graders.plain import plain
from rlft.specification.attempt import Attempt, Unread, no_object

PLACE = re.compile(r"\{\{([^{}]*)\}\}")
"""A place to fill in, of a checked template."""
_NAME = re.compile(r"\s*(item|sample)((?:\.[^\s.\[\]{}]+|\[[0-9]+\])+)\s*")
_STEP = re.compile(r"\.([^\s.\[\]]+)|\[([0-9]+)\]")
_OF_SAMPLE = ("output_text", "output_json", "output_tools")


def check_template(template: str) -> str:
    """Return the template. Raises ValueError for a place that names nothing that could be filled in."""
    for match in PLACE.finditer(template):
        name = _NAME.fullmatch(match[1])
        if name is None or (name[1] == "sample" and _steps(name[2])[0] not in _OF_SAMPLE):
            raise ValueError(
                f"{match[0]!r:.60} names nothing; write {{{{item.COLUMN}}}} for a column of the task's row, "
                f"{{{{item.answer}}}} for its answer, or {{{{sample.X}}}} with X of {', '.join(_OF_SAMPLE)}"
            )
    if "{{" in PLACE.sub("", template):
        raise ValueError(f"{template!r:.60} has an open {{{{; write {{{{item.COLUMN}}}}")
    return template


TEMPLATE = AfterValidator(check_template)
"""What marks a field as a template."""
Template = Annotated[str, TEMPLATE]
"""A text with places to fill in."""


def filled(template: str, attempt: Attempt) -> str:
    """Return a checked template with its places filled in.

    Raises `Unread` if the attempt lacks what is asked of it, and TaskError if the task's row does.
    """
    return PLACE.sub(lambda match: plain(_value(match[1], attempt)), template)


def reference_of(template: str, attempt: Attempt) -> str:
    """Return a filled template that an attempt is compared with.

    Raises as `filled` does, and TaskError where the task's row has nothing for it (`is_missing`).
    """
    if is_missing(template, value_of(template, attempt)):
        raise TaskError(
            f"{template} is null or empty, so there is nothing to compare with",
            where="reward.spec",
            fix="name another column, or let `applies` say which tasks have one",
        )
    return filled(template, attempt)


def is_missing(template: str, value: Any) -> bool:
    """Return whether a template stands for null, or for a blank text of the row, as an empty cell of a CSV file is."""
    of_row = PLACE.search(template) is not None and "sample." not in template
    return value is None or (of_row and isinstance(value, str) and not value.strip())


def value_of(template: str, attempt: Attempt) -> Any:
    """Return the JSON value that a template stands for, if it is one place and nothing else; else the filled text.

    Raises as `filled` does.
    """
    match = PLACE.fullmatch(template.strip())
    return filled(template, attempt) if match is None else _value(match[1], attempt)


def _value(place: str, attempt: Attempt) -> Any:
    name = _NAME.fullmatch(place)
    assert name is not None, place  # `check_template` lets nothing else through
    of_item = name[1] == "item"
    value: Any = attempt.item if of_item else attempt.sample
    for step in _steps(name[2]):
        if _has(value, step):
            value = value[step]
        elif of_item:
            known = ", ".join(map(str, attempt.item))
            raise TaskError(
                f"the task's row has no {place.strip()}",
                where="reward.spec",
                fix=f"name a column that every row has; this one has {known}",
            )
        else:
            if "output_json" in place and attempt.json_object is None:
                raise no_object(attempt, f"the attempt has no JSON object for {place.strip()}")
            raise Unread(f"the attempt has nothing for {place.strip()}")
    return value


def _has(value: Any, step: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, Mapping) and step in value


def _steps(path: str) -> list[str | int]:
    return [match[1] if match[1] is not None else int(match[2]) for match in _STEP.finditer(path)]
