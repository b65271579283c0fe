"""Looks at the texts of golds: the form that they share, and whether they are JSON or programs."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from typing import Any

from rlft.files import each_key_once
from rlft.syntax import parse

_FENCE = re.compile(r"```[a-zA-Z0-9]*\n(.*?)```", re.DOTALL)
_BETWEEN = re.compile(r"[,;\n]")
_LONGEST_PROGRAM = 20_000  # characters
_SIGNS = re.compile(r"[,;\n]")
_MOST_LABELS = 30
_OFTEN = 2  # times that a label is in the golds, in the mean
_SAYS_PROGRAM = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Return)


def shared_form(texts: Sequence[str]) -> tuple[str, str]:
    """Return what all texts begin and end with, up to the nearest signs that are no letters and digits.

    Both are empty for fewer than two different texts. `#### 12` and `#### 15` begin with `#### `.
    """
    if len(set(texts)) < 2:
        return "", ""
    begins = _beginning(texts)
    rest = [text[len(begins) :] for text in texts]
    ends = _beginning([text[::-1] for text in rest])[::-1]
    while begins and (begins[-1].isalnum() or begins[-1] in "-.,"):
        begins = begins[:-1]
    while ends and (ends[0].isalnum() or (ends[0] in "-.," and ends[1:2].isalnum())):
        ends = ends[1:]
    return begins, ends


def _beginning(texts: Sequence[str]) -> str:
    """Return what all texts begin with: what the first and the last of them in order share."""
    first, last = min(texts), max(texts)
    length = next((place for place, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), None)
    return first if length is None else first[:length]


def as_json(text: str) -> Any:
    """Return the object or list that a text is as JSON; `None` for anything else, and where a key stands twice."""
    try:
        value = json.loads(text, object_pairs_hook=each_key_once)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def labels_in(golds: Sequence[tuple[str, Any, int]], form: tuple[str, str]) -> tuple[tuple[list[str], int], ...]:
    """Return (labels, number of tasks) of golds, given as (text, its JSON or `None`, number of tasks).

    Nothing is returned where no gold lists several, or where they are too many, or too seldom, to be classes.
    """
    begins, ends = form
    found = list[tuple[list[str], int]]()
    for text, value, count in golds:
        said = _SIGNS.split(text.removeprefix(begins).removesuffix(ends)) if value is None else value
        listed = said if isinstance(said, list) else []
        found.append(([label for each in listed if (label := str(each).strip())], count))
    different = {label for labels, _ in found for label in labels}
    given = sum(len(labels) * count for labels, count in found)
    several = any(len(labels) > 1 for labels, _ in found)
    return tuple(found) if several and len(different) <= _MOST_LABELS and given >= _OFTEN * len(different) else ()


def program_of(text: str) -> str | None:
    """Return the Python program that a text is, or holds in a fenced block; `None` if it is none."""
    found = _FENCE.search(text)
    code = found.group(1) if found else text
    if len(code) > _LONGEST_PROGRAM:
        return None
    try:
        tree = parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    is_program = any(isinstance(node, _SAYS_PROGRAM) for node in tree.body) or called & {"print", "input"}
    return code if is_program else None


def defined_names(code: str) -> list[str]:
    """Return the names of the functions that a program defines at its top."""
    return [node.name for node in parse(code).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def items_of(text: str) -> tuple[str, ...] | None:
    """Return the items that a text lists, in order of the alphabet; `None` if it lists fewer than two.

    It lists them as JSON, or with a comma, a semicolon or a new line between them. Without JSON their case is no
    difference.
    """
    value = as_json(text)
    if isinstance(value, list):
        found = [json.dumps(each, sort_keys=True) for each in value]
    else:
        found = (
            [] if value is not None else [each for part in _BETWEEN.split(text) if (each := part.strip().casefold())]
        )
    return tuple(sorted(found)) if len(found) >= 2 else None


def plain(text: str) -> str:
    """Return a text without case, signs and white space, in which two ways to write one answer are equal."""
    return "".join(filter(str.isalnum, text.casefold()))
