"""Settings that name an environment variable: `env:NAME`, or `{env:NAME}` within a text such as `Bearer {env:NAME}`.

The variable is read where the setting is used. What is stored (the config, parameters, fingerprints, cache keys) holds
the name and never the value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlft.errors import ConfigError
from rlft.secrets.hiding import remember

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

    From now on the values are `***` in all that this process prints, logs and stores (`rlft.secrets.hide`). Raises
    ConfigError as `require` does.
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
