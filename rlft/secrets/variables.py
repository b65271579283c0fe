"""Settings that name a variable of the environment, `env:NAME` or `Bearer {env:NAME}`, read where they are used.

What is stored (the config, parameters, fingerprints, cache keys) holds the name and never the value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlft.errors import ConfigError
from rlft.secrets.hiding import remember

_WHOLE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
_MEANT = re.compile(r"\s*\$?\{?\s*env\s*:(?!//)", re.IGNORECASE)  # what a whole text that names one begins with
_WITHIN = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


def named_variables(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """(path of the setting, name) of every variable within a value of maps and lists that stands at `path`."""
    if isinstance(value, str):
        whole = _WHOLE.fullmatch(value)
        for name in [whole[1]] if whole else _WITHIN.findall(value):
            yield path, name
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from named_variables(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from named_variables(inner, f"{path}[{place}]")


def misspelt_variables(value: Any, path: str) -> Iterator[str]:
    """Paths of texts that begin as one that names a variable does, and name none."""
    if isinstance(value, str):
        if _MEANT.match(value) and not list(named_variables(value, path)):
            yield path
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from misspelt_variables(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from misspelt_variables(inner, f"{path}[{place}]")


def without_variables(text: str) -> str:
    """What a text holds itself, beside the variables that it names."""
    return "" if _WHOLE.fullmatch(text) else _WITHIN.sub("", text)


def require(value: Any, path: str) -> None:
    """Raises ConfigError that names every variable within `value` that has no value, with the path of its setting."""
    missing = [(place, name) for place, name in named_variables(value, path) if not os.environ.get(name)]
    if missing:
        said = "; ".join(f"{place} needs the variable {name}" for place, name in missing)
        raise ConfigError(
            f"{said}, which is not set or empty",
            where=path,
            fix=f"export {missing[0][1]}=... where the command runs, then start it again",
        )


def resolve(value: Any, path: str) -> Any:
    """A copy of a value of maps and lists in which every named variable is its value; all else stays as it is.

    The values are `***` from now on in what this process tells and stores (`rlft.secrets.hide`). Raises ConfigError.
    """
    require(value, path)
    return _filled(value)


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
