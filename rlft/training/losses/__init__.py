"""The losses that are shipped, by name; a file holds one loss, or all those with the same objective.

Every class with a `name` in a file of this room can be chosen by `training.loss_type`, its fields are settings of
`training`, and docs/guide/settings.md lists it. The files import torch for type checkers only, because the config
imports them, and a config is checked without torch.
"""

import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

from rlft.training.losses.base import Declared, Divisor, Loss

__all__ = ["LOSSES", "Declared", "Divisor", "Loss", "shipped"]
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


LOSSES: dict[str, type[Loss]] = shipped(__name__, Loss)
