"""The losses that are shipped, by name; a file holds one loss, or all those with the same objective.

Every class with a `name` in a file of this room can be chosen by `training.loss_type`, its fields are settings of
`training`, and docs/guide/settings.md lists it. The files import torch for type checkers only, because the config
imports them, and a config is checked without torch.
"""

from importlib import import_module
from pkgutil import iter_modules

from rlft.losses.base import Divisor, Loss

__all__ = ["LOSSES", "Divisor", "Loss"]


def _shipped() -> dict[str, type[Loss]]:
    """Return {name: class} of the losses in this room's files; classes that a file only imports are left out.

    Raises TypeError if two classes have one name.
    """
    modules = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]
    classes = [
        found
        for module in modules
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, Loss) and found.__module__ == module.__name__ and found.name
    ]
    shipped: dict[str, type[Loss]] = {}
    for found in classes:
        if shipped.setdefault(found.name, found) is not found:
            raise TypeError(
                f"two losses are called {found.name!r}: {shipped[found.name].__module__}, {found.__module__}"
            )
    return shipped


LOSSES = _shipped()
