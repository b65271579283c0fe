"""Values of variables that settings name, kept out of what is told and stored.

A value may come back in any text that an environment's code makes: the message of an error, a tool's result, a line of
the log. Such a text knows no settings, so this module remembers the values that were read: with the warm tables of
`materializers.warm` the one thing that a process keeps.
"""

from __future__ import annotations

import json
import logging
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, quote_plus

from rlft.secrets.texts import MASK

SHORTEST = 6
"""Characters of a value that is hidden; a shorter one stands in too many texts by chance."""
_hidden: set[str] = set()
_CREDENTIALS = re.compile(r"(?:Bearer|Basic|Token)\s+(\S+)|[a-z][a-z0-9+.-]*://[^\s/:@]*:(\S+)@\S*", re.IGNORECASE)


def remember(value: str) -> None:
    """Hide this value from now on, and the credentials within it."""
    found = _CREDENTIALS.fullmatch(value.strip())
    for part in {value, value.strip(), *(group for group in (found.groups() if found else ()) if group)}:
        if len(part) >= SHORTEST:
            _hidden.update(_forms(part))


def hide(text: str) -> str:
    """The text with `***` for every value that was read from a variable, also quoted for an address, JSON or Python
    and in base64."""
    for value in sorted(_hidden.copy(), key=len, reverse=True):  # another thread may read a variable meanwhile
        text = text.replace(value, MASK)
    return text


def hide_in(error: BaseException) -> None:
    """Hide the values in the texts of an error and of those that led to it, before others keep or print them."""
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
    """Around an environment's code: `hide_in` for what it raises."""
    try:
        yield
    except BaseException as error:
        hide_in(error)
        raise


def hide_in_logs() -> None:
    """Hide the values in every line that is logged from now on, by whichever library."""
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


def _forms(value: str) -> set[str]:
    return {
        value,
        quote(value),
        quote(value, safe=""),
        quote_plus(value),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        repr(value)[1:-1],
        b64encode(value.encode()).decode().rstrip("="),
    }
