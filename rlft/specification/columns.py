"""The columns that a specification asks the tasks' rows for, looked for in all of them before anything is scored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel

from rlft.errors import TaskError
from rlft.specification.attempt import Attempt, Unread, item_of
from rlft.specification.model import Criterion, Specification
from rlft.specification.scoring import applies
from rlft.specification.templates import PLACE, TEMPLATE, value_of
from rlft.specification.texts import Exact
from rlft.types import Task


def check_columns(specification: Specification, tasks: Sequence[Task]) -> None:
    """Raise TaskError for the first place of a template that some of the tasks' rows do not have.

    A criterion asks the tasks that it applies to, and the template `gold` asks all.
    """
    seen = [Attempt((), item_of(task)) for task in tasks]
    if specification.gold is not None:
        _check("gold", [specification.gold], seen)
    for name, criterion in specification.criteria.items():
        where = f"criteria.{name}"
        if criterion.applies is not None:
            _check(f"{where}.applies", [criterion.applies.when], seen)
        _check(where, list(templates_in(criterion.grader)), _asked(criterion, seen))


def templates_in(value: Any) -> Iterator[str]:
    """Yield the templates in a grader or a list of pieces, and in all that it is made of."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from templates_in(each)
    elif isinstance(value, dict):
        yield from templates_in(list(value.values()))
    elif isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            given = getattr(value, name)
            is_unread = isinstance(value, Exact) and name == "gold" and value.any_of  # `any_of` stands in its place
            if not is_unread and (TEMPLATE in field.metadata or _holds(field.annotation)):
                yield from _texts(given)
            yield from templates_in(given)


def _texts(value: Any) -> Iterator[str]:
    yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str))


def _holds(annotation: Any) -> bool:
    """Return whether templates stand somewhere in the type of a field, such as `list[Template] | None`."""
    return TEMPLATE in getattr(annotation, "__metadata__", ()) or any(map(_holds, get_args(annotation)))


def _asked(criterion: Criterion, seen: Sequence[Attempt]) -> Sequence[Attempt]:
    asks = criterion.applies
    return seen if asks is None else [each for each in seen if applies(asks, each)]


def _check(where: str, templates: Sequence[str], seen: Sequence[Attempt]) -> None:
    places = dict.fromkeys(match[0] for each in templates for match in PLACE.finditer(each))
    for place in places:
        lacking = [each for each in seen if not _has(place, each)]
        if not lacking:
            continue
        columns = list(map(str, lacking[0].item))
        near = get_close_matches(place.strip("{} ").removeprefix("item."), columns, n=1)
        meant = f"; did you mean {{{{item.{near[0]}}}}}?" if near else ""
        raise TaskError(
            f"{place} is not in the rows of {len(lacking)} of {len(seen)} tasks{meant}",
            where=f"reward.spec.{where}",
            fix=f"name a column that every row has, or let `applies` say which have it; one has {', '.join(columns)}",
        )


def _has(place: str, attempt: Attempt) -> bool:
    try:
        value_of(place, attempt)
    except TaskError:
        return False
    except Unread:  # a place of the attempt, which is to come
        return True
    return True
