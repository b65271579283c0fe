"""Reads the environment variables that settings name, and hides their values in all that the process writes.

A setting names one as `env:NAME`, or as `{env:NAME}` within a text such as `Bearer {env:NAME}`. It is read where the
setting is used; what is stored (the config, parameters, fingerprints, cache keys) holds the name and never the value.

A value may come back in any text that an environment's code makes: the message of an error, a tool's result, a line of
the log. Such a text does not come with the settings, so this module remembers the values that were read. Beside the
warm tables of `materializers.tables` this is the only global state of a process.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr
from typing import Any, TextIO
from urllib.parse import quote, quote_plus

from rlft.errors import ConfigError
from rlft.texts.secrets.texts import MASK

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


_WHOLE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
_MEANT = re.compile(r"\s*\$?\{?\s*env\s*:(?!//)", re.IGNORECASE)  # how texts begin that are meant to name a variable
_WITHIN = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


def named_variables(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield (path of the text, name) for every variable that a text in nested maps and lists names.

    `path` is where `value` itself stands.
    """
    for place, text in _texts(value, path):
        for name in _names(text):
            yield place, name


def misspelt_variables(value: Any, path: str) -> Iterator[str]:
    """Yield the paths of texts that begin as if they named a variable, but name none, such as `Env: NAME`."""
    for place, text in _texts(value, path):
        if _MEANT.match(text) and not _names(text):
            yield place


def without_variables(text: str) -> str:
    """Return the text without the variables that it names."""
    return "" if _WHOLE.fullmatch(text) else _WITHIN.sub("", text)


def require(value: Any, path: str) -> None:
    """Raise ConfigError if a variable that a text within `value` names is not set or empty.

    The error lists all such variables with the paths of their settings; `path` is where `value` itself stands.
    """
    missing = [(place, name) for place, name in named_variables(value, path) if not os.environ.get(name)]
    if missing:
        said = "; ".join(f"{place} needs the variable {name}" for place, name in missing)
        raise ConfigError(
            f"{said}, which is not set or empty",
            where=path,
            fix=f"export {missing[0][1]}=... where the command runs, then start it again",
        )


def resolve(value: Any, path: str) -> Any:
    """Return a copy of nested maps and lists in which the value of each named variable stands in place of its name.

    From now on the values are `***` in all that this process prints, logs and stores (`rlft.texts.secrets.hide`).
    Raises ConfigError as `require` does.
    """
    require(value, path)
    return _filled(value)


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield (path, text) for every text in nested maps and lists, without the keys."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _texts(inner, f"{path}[{place}]")


def _names(text: str) -> list[str]:
    """Return the variables that a text names."""
    whole = _WHOLE.fullmatch(text)
    return [whole[1]] if whole else _WITHIN.findall(text)


def _filled(value: Any) -> Any:
    if isinstance(value, str):
        whole = _WHOLE.fullmatch(value)
        return _read(whole[1]) if whole else _WITHIN.sub(lambda found: _read(found[1]), value)
    if isinstance(value, Mapping):
        return {key: _filled(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner) for inner in value]
    return value


def _read(name: str) -> str:
    value = os.environ[name]
    remember(value)
    return value
