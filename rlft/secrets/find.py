"""The secrets within a value of maps and lists, by the names on the way to a text and by the text itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlft.secrets.names import looks_random, names_a_secret
from rlft.secrets.texts import MASK, redact, secret_spans
from rlft.secrets.variables import without_variables

_EMPTY = re.compile(r"\W*|<[^<>]*>|\[[A-Za-z_]+\]|none|null|true|false|unused", re.IGNORECASE)
_NAMES_OF_PAIRS = ("name", "key", "header")


def find_secrets(content: Any) -> list[str]:
    """Paths of the texts that look like secrets, such as `environment.kwargs.headers[0].Authorization`.

    A text that names a variable (`env:NAME`) is none, nor are numbers and what is empty.
    """
    return [redact(path) for path, names, text in _texts(content, "", ()) if _is_secret(names, text)]


def hide_secrets(content: Any) -> Any:
    """A copy as plain JSON values in which texts that look like secrets are `***`; numbers stay."""
    return _hidden(content, ())


def _is_secret(names: tuple[str, ...], text: str) -> bool:
    own = without_variables(text)
    if own == text and not _EMPTY.fullmatch(text) and any(names_a_secret(name, text) for name in names):
        return True
    return any(secret_spans(own))


def _texts(content: Any, path: str, names: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """(path, the names on it, text) of every text, those of keys included."""
    if isinstance(content, str):
        yield path, names, content
    elif isinstance(content, Mapping):
        for key, value in content.items():
            yield f"{path}: a key", (), str(key)
            yield from _texts(value, f"{path}.{key}" if path else str(key), _names(content, str(key), names))
    elif isinstance(content, list | tuple):
        names = _names_in_pair(content, names)
        for place, value in enumerate(content):
            yield from _texts(value, f"{path}[{place}]", names)


def _hidden(content: Any, names: tuple[str, ...]) -> Any:
    if isinstance(content, str):
        own = without_variables(content)
        if own != content:  # a variable's name is for all to see
            return redact(content) if any(secret_spans(own)) else content
        named = not _EMPTY.fullmatch(content) and any(names_a_secret(name, content) for name in names)
        return MASK if named else redact(content)
    if isinstance(content, Mapping):
        return {redact(str(key)): _hidden(value, _names(content, str(key), names)) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_hidden(value, _names_in_pair(content, names)) for value in content]
    return content


def _names(content: Mapping[Any, Any], key: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of a map's value: its key, those above, and `{name: Authorization, value: ...}`'s own."""
    told = (
        [content[other] for other in _NAMES_OF_PAIRS if isinstance(content.get(other), str)] if key == "value" else []
    )
    return (*names, key, *told)


def _names_in_pair(content: list[Any] | tuple[Any, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """`[X-API-Key, 8f2e...]` is a header and its value; `[token, label]` is a list of columns."""
    is_pair = len(content) == 2 and all(isinstance(each, str) for each in content) and looks_random(content[1])
    return (*names, content[0]) if is_pair else names
