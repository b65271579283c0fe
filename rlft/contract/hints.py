"""Hints for errors of an environment's code that asks a task, completion or message for something it does not have."""

from __future__ import annotations

import ast
import linecache
import traceback
from collections.abc import Mapping
from dataclasses import fields
from types import FrameType
from typing import Any, TypeGuard

from rlft.syntax import parse
from rlft.types import Task, Trajectory

_MOST_NAMES, _LONGEST_NAME = 20, 40
_PROMPT = "task.prompt is a tuple of messages; task.text is the prompt's text"
_COMPLETION = (
    "a completion is a list of messages; completion.text is the answer, and it has: text, task, state, truncated"
)
_TASK = f"a task has: {', '.join(field.name for field in fields(Task))}, text"
_MISSING = object()


def instead(error: BaseException, frame: FrameType, entry: traceback.FrameSummary, task: Task | None) -> str:
    """Return a hint that says what is available, such as `task.info has: id, queue`, or an empty text.

    `frame` and `entry` are the user's line that the error comes from, and `task` is the task at hand, if any.
    """
    try:
        match error:
            case KeyError():
                return _for_key(error, frame, entry, task)
            case AttributeError():
                return _for_attribute(error.obj, error.name)
            case TypeError():
                return _for_type(str(error), frame, entry)
            case _:
                return ""
    except (Exception, SystemExit):  # the values looked at may be objects of the user's, whose methods raise too
        return ""


def _for_key(error: KeyError, frame: FrameType, entry: traceback.FrameSummary, task: Task | None) -> str:
    subscript = _subscript(entry)
    if subscript is not None:
        value = _value(subscript.value, frame)
        return f"{ast.unparse(subscript.value)} has: {_names(value)}" if isinstance(value, dict) else ""
    missing = error.args[0] if error.args else None
    if task is not None and "info" in (entry.line or "") and missing not in task.info:
        return f"info has: {_names(task.info)}"
    return ""


def _for_attribute(owner: Any, name: str | None) -> str:
    if isinstance(owner, Task):
        return _TASK
    if isinstance(owner, Trajectory):
        return _COMPLETION
    if isinstance(owner, tuple) and owner and _is_message(owner[0]):
        return _PROMPT
    if _is_message(owner):
        return f"a message is a dict that has: {_names(owner)}" + (f"; write [{name!r}]" if name in owner else "")
    return ""


def _for_type(text: str, frame: FrameType, entry: traceback.FrameSummary) -> str:
    if "'Task'" in text:
        return _TASK
    if "Trajectory" in text:
        return _COMPLETION
    subscript = _subscript(entry)
    asked = None if subscript is None else _value(subscript.value, frame)
    if isinstance(asked, Trajectory):
        return _COMPLETION
    if "tuple" in text and ((isinstance(asked, tuple) and asked and _is_message(asked[0])) or _names_prompt(entry)):
        return _PROMPT
    return ""


def _is_message(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping) and "role" in value and "content" in value


def _names_prompt(entry: traceback.FrameSummary) -> bool:
    return ".prompt" in (entry.line or "")


def _names(value: Mapping[Any, Any]) -> str:
    names = [str(key)[:_LONGEST_NAME] for key in value if type(key) in (str, int)]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    if value and not names:
        return f"{len(value)} keys, which are of the type {type(next(iter(value))).__name__}"
    return ", ".join(names[:_MOST_NAMES]) + more if names else "nothing"


def _subscript(entry: traceback.FrameSummary) -> ast.Subscript | None:
    """Return the subscript `x[...]` that was being evaluated; `None` if it was none, or spans several lines."""
    start, end = entry.colno, entry.end_colno
    if start is None or end is None or entry.lineno != entry.end_lineno:
        return None
    try:
        # Columns count bytes of UTF-8: https://docs.python.org/3/reference/datamodel.html#codeobject.co_positions
        line = linecache.getline(entry.filename, entry.lineno or 0).encode()
        parsed = parse(line[start:end].decode(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return parsed if isinstance(parsed, ast.Subscript) else None


def _value(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of a name, attribute or constant subscript in a frame, without running code of the user's.

    `_MISSING` stands for anything else, and for what could only be found by calling a property or `__getitem__`.
    """
    match node:
        case ast.Name(id=name):
            return frame.f_locals.get(name, frame.f_globals.get(name, _MISSING))
        case ast.Attribute(value=inner, attr=name):
            return _attribute(_value(inner, frame), name)
        case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
            owner = _value(inner, frame)
            return owner.get(key, _MISSING) if type(owner) is dict else _MISSING
        case _:
            return _MISSING


def _attribute(owner: Any, name: str) -> Any:
    if isinstance(owner, Task):  # its attributes are slots: it has no `__dict__`
        return getattr(owner, name) if name in owner.__slots__ else _MISSING
    try:
        return object.__getattribute__(owner, "__dict__").get(name, _MISSING)
    except AttributeError:
        return _MISSING
