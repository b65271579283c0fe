"""Hides the values of environment variables that settings name in whatever the process prints, logs and stores.

A value may come back in any text that an environment's code makes: the message of an error, a tool's result, a line of
the log. Such a text does not come with the settings, so this module remembers the values that were read. Beside the
warm tables of `materializers.warm` this is the only global state of a process.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from typing import Any, TextIO
from urllib.parse import quote, quote_plus

from rlft.secrets.texts import MASK

SHORTEST = 6
"""Fewest characters of a value that is hidden. A shorter one would occur in too many texts by chance."""
_hidden: set[str] = set()
_CREDENTIALS = re.compile(r"(?:Bearer|Basic|Token)\s+(\S+)|[a-z][a-z0-9+.-]*://[^\s/:@]*:(\S+)@\S*", re.IGNORECASE)


def remember(value: str) -> None:
    """Hide this value from now on, and the credentials within it (`Bearer KEY`, `https://user:password@host`)."""
    found = _CREDENTIALS.fullmatch(value.strip())
    for part in {value, value.strip(), *(group for group in (found.groups() if found else ()) if group)}:
        if len(part) >= SHORTEST:
            _hidden.update(_forms(part))


def hide(text: str) -> str:
    """Return the text with `***` for every value that was read from a variable.

    The value is also found when it is quoted for an address, JSON or Python, or written in base64.
    """
    # A copy, as another thread may read a variable meanwhile; longest first, as one value may be a part of another.
    for value in sorted(_hidden.copy(), key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


def hide_in(error: BaseException) -> None:
    """Hide the values in the texts of an error and of its causes, in place, before anybody keeps or prints them."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while _hidden and waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        waiting += [current.__cause__, current.__context__]
        current.args = tuple(hide(each) if isinstance(each, str) else each for each in current.args)
        for name, value in vars(current).items():
            if isinstance(value, str):
                setattr(current, name, hide(value))


@contextmanager
def hiding() -> Iterator[None]:
    """Apply `hide_in` to whatever the code in this context raises; put it around an environment's code."""
    try:
        yield
    except BaseException as error:
        hide_in(error)
        raise


def hide_in_logs() -> None:
    """Hide the values in every line that any library logs from now on; calling it again changes nothing.

    It replaces the factory of log records, because every library's lines are made there.
    """
    make = logging.getLogRecordFactory()
    if getattr(make, "hides", False):
        return

    def record(*args: Any, **kwargs: Any) -> logging.LogRecord:
        made = make(*args, **kwargs)
        if _hidden:
            text = made.getMessage()
            if (hidden := hide(text)) != text:
                made.msg, made.args = hidden, ()
            if made.exc_info and made.exc_info[1]:
                hide_in(made.exc_info[1])
        return made

    record.hides = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(record)


class _Hiding:
    """A stream into which text is written without the values."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(hide(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def hide_in_output() -> None:
    """Hide the values also in what this process writes to stderr by itself, from now on: warnings, uncaught errors.

    Call once, in a process whose output goes to the user as it is.
    """
    hide_in_logs()
    stream: Any = _Hiding(sys.stderr)
    ExitStack().enter_context(redirect_stderr(stream))  # and never left


def _forms(value: str) -> set[str]:
    """Return the value as it may stand in a text: plain, and quoted for addresses, JSON and Python, and in base64.

    Where it stands within a longer text in base64 (`user:password`), that begins at one of three places in a group of
    three bytes; the signs that hold bits of its neighbours, too, are left out.
    """
    raw = value.encode()
    coded = {b64encode(bytes(k) + raw).decode()[-(-8 * k // 6) : 8 * (k + len(raw)) // 6] for k in range(3)}
    return {
        *coded,
        *(each.replace("+", "-").replace("/", "_") for each in coded),
        value,
        quote(value),
        quote(value, safe=""),
        quote_plus(value),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        repr(value)[1:-1],
    }
