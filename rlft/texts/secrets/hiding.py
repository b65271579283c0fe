"""Reads the environment variables that settings name, and hides their values in all that the process writes.

It also finds the secrets that stand in nested settings themselves, by the keys on the path to a text and by the text.

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
from rlft.texts.secrets.texts import MASK, looks_random, names_a_password, names_a_secret, redact, secret_spans

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


# Keys of maps that hold one name and its value, as in {name: Authorization, value: ...}.
_NAMES_OF_PAIRS = ("name", "key", "header", "k")
_VALUES_OF_PAIRS = ("value", "v")
_SHORTEST_NUMBER = 4  # characters of a number that can be a password


def find_secrets(content: Any) -> list[str]:
    """Return the paths of the texts that look like secrets, such as `environment.kwargs.headers[0].Authorization`.

    Texts that name an environment variable (`env:NAME`), placeholders and numbers do not count as secrets; a number
    does if its key says that it is a password.
    """
    return [redact(path) for path, names, text in _named_texts(content, "", ()) if _is_secret(names, text)]


def find_shown_secrets(content: Any, path: str) -> list[str]:
    """Return the paths of the texts that are secrets by their own form, whatever the keys above them are.

    `path` is where `content` itself stands.
    """
    return [redact(place) for place, _, text in _named_texts(content, path, ()) if any(secret_spans(text))]


def hide_secrets(content: Any) -> Any:
    """Return a copy, as plain JSON values, in which every text that looks like a secret is `***`."""
    return _masked(content, ())


def _is_secret(names: tuple[str, ...], text: str) -> bool:
    own = without_variables(text)
    if own == text and any(names_a_secret(name, text) for name in names):
        return True
    return any(secret_spans(own))


def _named_texts(content: Any, path: str, names: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield (path, the keys on it, text) for every text; the keys themselves are texts too."""
    if isinstance(content, str):
        yield path, names, content
    elif _is_numeric_password(content, names):
        yield path, names, str(content)
    elif isinstance(content, Mapping):
        for key, value in content.items():
            yield f"{path}: a key", (), str(key)
            yield from _named_texts(
                value, f"{path}.{key}" if path else str(key), _names_of_value(content, str(key), names)
            )
    elif isinstance(content, list | tuple):
        for place, (value, told) in enumerate(_named_items(content, names)):
            yield from _named_texts(value, f"{path}[{place}]", told)


def _masked(content: Any, names: tuple[str, ...]) -> Any:
    if isinstance(content, str):
        own = without_variables(content)
        if own != content:  # it names a variable, and the name of a variable is no secret
            return redact(content) if any(secret_spans(own)) else content
        named = any(names_a_secret(name, content) for name in names)
        return MASK if named else redact(content)
    if isinstance(content, Mapping):
        return {
            redact(str(key)): _masked(value, _names_of_value(content, str(key), names))
            for key, value in content.items()
        }
    if isinstance(content, list | tuple):
        return [_masked(value, told) for value, told in _named_items(content, names)]
    return MASK if _is_numeric_password(content, names) else content


def _names_of_value(content: Mapping[Any, Any], key: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a map's value.

    These are the keys above it, its own, and the `name` in `{name: Authorization, value: ...}`.
    """
    told = (
        [content[other] for other in _NAMES_OF_PAIRS if isinstance(content.get(other), str)]
        if key in _VALUES_OF_PAIRS
        else []
    )
    return (*names, key, *told)


def _named_items(content: list[Any] | tuple[Any, ...], names: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield the items of a list with their names.

    `[X-API-Key, 8f2e...]` is taken for a header and its value but `[token, label]` for a list of columns,
    `auth: [user, 1234]` for a user and a password, and what follows `--api-key` for its value.
    """
    texts = all(isinstance(each, str) for each in content)
    is_pair = len(content) == 2 and texts and looks_random(content[1])
    option = ""
    for place, value in enumerate(content):
        more = [content[0]] if is_pair else []
        if len(content) == 2 and texts and place and names and names[-1].lower().endswith("auth"):
            more.append("password")
        if option and texts and not value.startswith("-"):
            more.append(option)
        yield value, (*names, *more)
        option = value[2:] if isinstance(value, str) and value.startswith("--") and "=" not in value else ""


def _is_numeric_password(content: Any, names: tuple[str, ...]) -> bool:
    is_number = isinstance(content, int | float) and not isinstance(content, bool)
    return is_number and len(str(content)) >= _SHORTEST_NUMBER and bool(names) and names_a_password(names[-1])
