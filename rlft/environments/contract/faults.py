"""Describes what an environment's own code raised: the error, the user's line, and what is available instead.

A description reads `KeyError: 'text', at capitals.py:12; task.info has: id, queue, when`. Every error that reaches a
rollout, a reward, the check, the audit or the log is written here.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import Any, TypeGuard

from rlft.errors import EnvironmentSetupError, RlftError
from rlft.files import OWN_PACKAGES, RLFT_FOLDER, is_installed
from rlft.outcome import Failure
from rlft.syntax import parse
from rlft.texts.characters import visible
from rlft.texts.secrets import hide, hide_in
from rlft.types import Task, Trajectory

LONGEST = 500
"""The most characters that an error's description has."""
_PLACE = "__rlft_place__"  # an attribute of an error, which pickle keeps
_LONGEST_TAIL = 400  # characters of the place and the hint in a description
_OURS = tuple(RLFT_FOLDER.parent / name for name in OWN_PACKAGES)
_STANDARD = Path(sysconfig.get_paths()["stdlib"]).resolve()


def described(error: BaseException, task: Task | None = None) -> str:
    """Return the error's type and text, its place in the user's code, and a hint where something is missing.

    It has at most `LONGEST` characters; the error's text is cut before the place and the hint. The values of secret
    variables are hidden, and control characters are escaped. An `RlftError` names its place itself, so none is added.
    `task` is the task that the failing code was given, for the hint.
    """
    return failure_of("", error, task).why


def failure_of(where: str, error: BaseException, task: Task | None = None) -> Failure:
    """Return that `where` failed by this error: its description (`described`), its type and its line."""
    whole = error
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:  # as task groups raise
        error = error.exceptions[0]
    head = type(error).__name__
    if text := _text_of(error):
        head += f": {text}"
    place = tail = ""
    if noted := getattr(error, _PLACE, ""):
        place = str(noted)
        tail = f", at {place}"
    elif not isinstance(error, RlftError) and (found := _own_frame(error) or _own_frame(whole)) is not None:
        frame, entry = found
        place = f"{_shown(entry.filename)}:{entry.lineno}"
        tail = f", at {place}"
        if there_is := instead(error, frame, entry, task):
            tail += f"; {there_is}"
    tail = _clean(tail)[:_LONGEST_TAIL]
    why = _clean(head)[: LONGEST - len(tail)] + tail
    return Failure(where, why, raised=type(error).__name__, place=_clean(place))


def note_place(error: BaseException) -> None:
    """Note at an error where in the user's own code it was, for a process that it is sent to without its trace."""
    if not isinstance(error, RlftError) and (found := place_of(error)) is not None:
        setattr(error, _PLACE, found[0])


def place_of(error: BaseException) -> tuple[str, str] | None:
    """Return `file.py:line` of the innermost line of the user's own code that led to an error, and the line's text.

    For a file that cannot be parsed it is the line with the syntax error. `None` if no line of the user's is involved.
    """
    if isinstance(error, SyntaxError) and error.lineno and not (error.filename or "<").startswith("<"):
        # User code may raise a SyntaxError of its own, whose `text` may be of any type.
        line = error.text if isinstance(error.text, str) else ""
        return f"{_shown(str(error.filename))}:{error.lineno}", _clean(line.strip())
    if (found := _own_frame(error)) is None:
        return None
    entry = found[1]
    return f"{_shown(entry.filename)}:{entry.lineno}", _clean((entry.line or "").strip())


def defined_at(function: Callable[..., Any]) -> str:
    """Return `, at file.py:line`, where a function is defined, or an empty text where it is not written in Python."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f", at {_shown(code.co_filename)}:{code.co_firstlineno}" if code is not None else ""


@contextmanager
def calling(where: str, task: Task | None = None) -> Iterator[None]:
    """Wrap a call of an environment's code whose failure must stop the run.

    Raises EnvironmentSetupError with the description of what the code raises; an RlftError passes unchanged. `where`
    names the method, and `task` the task that it was given.
    """
    try:
        yield
    except RlftError as error:
        hide_in(error)
        raise
    except Exception as error:
        hide_in(error)
        on, when = (f" (task {task.id})", "for every task") if task else ("", "before anything can be tried")
        fix = f"mend it: it must work {when}"
        raise EnvironmentSetupError(f"{described(error, task)}{on}", where=where, fix=fix) from error


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except (Exception, SystemExit) as unreadable:
        return f"(its text cannot be read: {type(unreadable).__name__})"


def _clean(text: str) -> str:
    return visible(hide(text))


def _own_frame(error: BaseException) -> tuple[FrameType, traceback.FrameSummary] | None:
    """Return the innermost frame in the user's own code, of the error or of one that caused it."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        frames = [frame for frame, _ in traceback.walk_tb(current.__traceback__)]
        pairs = list(zip(frames, traceback.extract_tb(current.__traceback__), strict=False))
        if own := next((pair for pair in reversed(pairs) if _is_own(*pair)), None):
            return own
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return None


def _is_own(frame: FrameType, entry: traceback.FrameSummary) -> bool:
    """Return whether a frame is of the user's own code: not of rlft, of Python, or of an installed library.

    Methods of an environment that is installed as a package count as the user's own.
    """
    if entry.filename.startswith("<"):
        return False
    path = Path(entry.filename).resolve()
    if any(path.is_relative_to(folder) for folder in _OURS):
        return False
    if is_installed(Path(entry.filename)):
        return hasattr(type(frame.f_locals.get("self")), "compute_reward")
    return not path.is_relative_to(_STANDARD)


def _shown(filename: str) -> str:
    """Return the path relative to the working directory if it lies below it, else as it is."""
    try:
        return str(Path(filename).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return filename


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
