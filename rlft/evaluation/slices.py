"""Divides tasks into slices by the values of their columns, so that a metric can be reported for each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlft.texts.characters import visible
from rlft.types import Task

MOST_VALUES = 12  # of one column; more numbers become four ranges, and rarer texts `(other)`
NONE, OTHER = "(none)", "(other)"
_LONGEST = 60  # characters of a value


def slices_of(tasks: Sequence[Task], columns: Sequence[str]) -> dict[str, dict[str, frozenset[str]]]:
    """Return {column: {value: ids of its tasks}}, in which every task stands once under each column.

    A column is one of `task.info`; `environment`, where no column has this name, is the task's environment. Numbers of
    more than `MOST_VALUES` different values are divided at their quartiles into ranges (`0 to 3`), and of as many texts
    the rarest become one slice, `(other)`. Tasks without the column, or with null in it, are `(none)`. A column that no
    task has is one slice of this name.
    """
    return {column: _slices({task.id: _value(task, column) for task in tasks}) for column in columns}


def _value(task: Task, column: str) -> Any:
    return task.info.get(column, task.environment if column == "environment" else None)


def _slices(values: dict[str, Any]) -> dict[str, frozenset[str]]:
    there = [value for value in values.values() if value is not None]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in there)
    if there and numbers and len(set(there)) > MOST_VALUES:
        names = _ranges({task: value for task, value in values.items() if value is not None})
    else:
        names = {task: _text(value) for task, value in values.items() if value is not None}
        ranked = sorted(Counter(names.values()).items(), key=lambda item: (-item[1], item[0]))
        kept = {name for name, _ in (ranked if len(ranked) <= MOST_VALUES else ranked[: MOST_VALUES - 1])}
        names = {task: name if name in kept else OTHER for task, name in names.items()}
    found: dict[str, set[str]] = {}
    for task in values:
        found.setdefault(names.get(task, NONE), set()).add(task)
    last = (OTHER, NONE)
    order = sorted((name for name in found if name not in last), key=lambda name: _place(name, names, values))
    return {name: frozenset(found[name]) for name in [*order, *last] if name in found}


def _place(name: str, names: dict[str, str], values: dict[str, Any]) -> tuple[float, str]:
    """Return by what slices are ordered: the lowest number in one, else its name."""
    numbers = [values[task] for task, found in names.items() if found == name]
    is_number = all(isinstance(value, int | float) for value in numbers)
    return (float(min(numbers)) if is_number else 0.0, name)


def _ranges(numbers: dict[str, float]) -> dict[str, str]:
    """Return the range of each number: at most four, from quartile to quartile, named by what occurs in them."""
    edges = np.unique(np.quantile(np.array(list(numbers.values()), dtype=np.float64), [0.25, 0.5, 0.75]))
    places = {task: int(np.searchsorted(edges, value, side="left")) for task, value in numbers.items()}
    ends: dict[int, tuple[float, float]] = {}
    for task, place in places.items():
        low, high = ends.get(place, (numbers[task], numbers[task]))
        ends[place] = min(low, numbers[task]), max(high, numbers[task])
    return {task: f"{ends[place][0]:g} to {ends[place][1]:g}" for task, place in places.items()}


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return visible(text).replace("\n", " ").strip()[:_LONGEST] or "(empty)"
