"""What changes often is one class in one file of a room: a loss, an algorithm, an engine. Here it is found by name."""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict


class Declared(BaseModel):
    """What a file of its own declares and the config finds by its name; the fields of a class are its settings.

    The first line of a class's docstring says what it is.

    Attributes:
        name: The value of the setting that chooses it; empty for a base class.
        paper: Where it was published.
        example: Values of the settings that must be given, with which the tests try it.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        hide_input_in_errors=True,
    )

    name: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    example: ClassVar[dict[str, Any]] = {}


_Kind = TypeVar("_Kind", bound=Declared)


def shipped(room: str, base: type[_Kind]) -> dict[str, type[_Kind]]:
    """Return {name: class} of the classes in a room's files; those that a file only imports are left out.

    Raises TypeError if two classes have one name.
    """
    modules = [import_module(f"{room}.{found.name}") for found in iter_modules(sys.modules[room].__path__)]
    classes = [
        found
        for module in modules
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, base) and found.__module__ == module.__name__ and found.name
    ]
    by_name: dict[str, type[_Kind]] = {}
    for found in classes:
        if by_name.setdefault(found.name, found) is not found:
            places = f"{by_name[found.name].__module__}, {found.__module__}"
            raise TypeError(f"two classes are called {found.name!r}: {places}")
    return by_name
