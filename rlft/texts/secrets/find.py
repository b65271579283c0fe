"""Finds the secrets within nested maps and lists, by the keys on the path to a text and by the text itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlft.texts.secrets.hiding import without_variables
from rlft.texts.secrets.texts import MASK, looks_random, names_a_password, names_a_secret, redact, secret_spans

# Keys of maps that hold one name and its value, as in {name: Authorization, value: ...}.
_NAMES_OF_PAIRS = ("name", "key", "header", "k")
_VALUES_OF_PAIRS = ("value", "v")
_SHORTEST_NUMBER = 4  # characters of a number that can be a password


def find_secrets(content: Any) -> list[str]:
    """Return the paths of the texts that look like secrets, such as `environment.kwargs.headers[0].Authorization`.

    Texts that name an environment variable (`env:NAME`), placeholders and numbers do not count as secrets; a number
    does if its key says that it is a password.
    """
    return [redact(path) for path, names, text in _texts(content, "", ()) if _is_secret(names, text)]


def find_shown_secrets(content: Any, path: str) -> list[str]:
    """Return the paths of the texts that are secrets by their own form, whatever the keys above them are.

    `path` is where `content` itself stands.
    """
    return [redact(place) for place, _, text in _texts(content, path, ()) if any(secret_spans(text))]


def hide_secrets(content: Any) -> Any:
    """Return a copy, as plain JSON values, in which every text that looks like a secret is `***`."""
    return _hidden(content, ())


def _is_secret(names: tuple[str, ...], text: str) -> bool:
    own = without_variables(text)
    if own == text and any(names_a_secret(name, text) for name in names):
        return True
    return any(secret_spans(own))


def _texts(content: Any, path: str, names: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield (path, the keys on it, text) for every text; the keys themselves are texts too."""
    if isinstance(content, str):
        yield path, names, content
    elif _is_numeric_password(content, names):
        yield path, names, str(content)
    elif isinstance(content, Mapping):
        for key, value in content.items():
            yield f"{path}: a key", (), str(key)
            yield from _texts(value, f"{path}.{key}" if path else str(key), _names(content, str(key), names))
    elif isinstance(content, list | tuple):
        for place, (value, told) in enumerate(_named_items(content, names)):
            yield from _texts(value, f"{path}[{place}]", told)


def _hidden(content: Any, names: tuple[str, ...]) -> Any:
    if isinstance(content, str):
        own = without_variables(content)
        if own != content:  # it names a variable, and the name of a variable is no secret
            return redact(content) if any(secret_spans(own)) else content
        named = any(names_a_secret(name, content) for name in names)
        return MASK if named else redact(content)
    if isinstance(content, Mapping):
        return {redact(str(key)): _hidden(value, _names(content, str(key), names)) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_hidden(value, told) for value, told in _named_items(content, names)]
    return MASK if _is_numeric_password(content, names) else content


def _names(content: Mapping[Any, Any], key: str, names: tuple[str, ...]) -> tuple[str, ...]:
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
