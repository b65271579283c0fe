"""Describes what an environment's own code raised: the error, the user's line, and the keys of a task's `info`.

A description reads `KeyError: 'text', at capitals.py:12; task.info has: id, queue, when`. Every error that reaches a
rollout, a reward, the check, the audit or the log is written here.
"""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rlft.errors import EnvironmentSetupError, RlftError
from rlft.files import OWN_PACKAGES, RLFT_FOLDER, is_installed
from rlft.outcome import Failure
from rlft.texts.characters import visible
from rlft.texts.secrets import hide, hide_in
from rlft.types import Task

LONGEST = 500
"""The most characters that an error's description has."""
_PLACE = "__rlft_place__"  # an attribute of an error, which pickle keeps
_LONGEST_TAIL = 400  # characters of the place and the hint in a description
_OURS = tuple(RLFT_FOLDER.parent / name for name in OWN_PACKAGES)
_STANDARD = Path(sysconfig.get_paths()["stdlib"]).resolve()


def described(error: BaseException, task: Task | None = None) -> str:
    """Return the error's type and text, its place in the user's code, and the keys of `task.info` where one is missing.

    It has at most `LONGEST` characters; the error's text is cut before the place and the hint. The values of secret
    variables are hidden, and control characters are escaped. An `RlftError` names its place itself, so none is added.
    `task` is the task that the failing code was given.
    """
    return failure_of("", error, task).why


def failure_of(where: str, error: BaseException, task: Task | None = None) -> Failure:
    """Return that `where` failed by this error: its description (`described`), its type and its line."""
    whole = error
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:  # as task groups raise
        error = error.exceptions[0]
    head = type(error).__name__
    if text := str(error):
        head += f": {text}"
    place = tail = ""
    if noted := getattr(error, _PLACE, ""):
        place = str(noted)
        tail = f", at {place}"
    elif not isinstance(error, RlftError) and (found := _own_frame(error) or _own_frame(whole)) is not None:
        place = f"{_shown(found.filename)}:{found.lineno}"
        tail = f", at {place}"
        if isinstance(error, KeyError) and task is not None and "info" in (found.line or ""):
            tail += f"; task.info has: {', '.join(map(str, task.info))}"
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
    if (entry := _own_frame(error)) is None:
        return None
    return f"{_shown(entry.filename)}:{entry.lineno}", _clean((entry.line or "").strip())


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


def _clean(text: str) -> str:
    return visible(hide(text))


def _own_frame(error: BaseException) -> traceback.FrameSummary | None:
    """Return the innermost frame in the user's own code, of the error or of one that caused it."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        frames = [frame for frame, _ in traceback.walk_tb(current.__traceback__)]
        pairs = list(zip(frames, traceback.extract_tb(current.__traceback__), strict=False))
        if own := next((entry for frame, entry in reversed(pairs) if _is_own(frame, entry)), None):
            return own
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return None


def _is_own(frame: FrameType, entry: traceback.FrameSummary) -> bool:
    """Return whether a frame is of the user's own code; methods of an environment that is installed count, too."""
    if is_installed(entry.filename) and not _is_ours(entry.filename):
        return hasattr(type(frame.f_locals.get("self")), "compute_reward")
    return is_users(entry.filename)


def is_users(file: str) -> bool:
    """Return whether a file of code is the user's own: not of rlft, of Python, or of an installed library."""
    return not (
        file.startswith("<") or is_installed(file) or _is_ours(file) or Path(file).resolve().is_relative_to(_STANDARD)
    )


def _is_ours(file: str) -> bool:
    return any(map(Path(file).resolve().is_relative_to, _OURS))


def _shown(filename: str) -> str:
    """Return the path relative to the working directory if it lies below it, else as it is."""
    try:
        return str(Path(filename).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return filename
