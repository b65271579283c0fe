"""Losses, one file each or one file for those of one objective: objective, settings, divisor and paper together.

Whatever class with a `name` stands in a file of this room can be chosen by `training.loss_type`, its settings are
settings of `training`, and the pages list it. Declarations are read without torch, as a config is checked without it.
"""

from importlib import import_module
from pkgutil import iter_modules

from rlft.losses.base import Divisor, Loss

__all__ = ["LOSSES", "Divisor", "Loss"]


def _shipped() -> dict[str, type[Loss]]:
    modules = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]
    classes = [
        found
        for module in modules
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, Loss) and found.__module__ == module.__name__ and found.name
    ]
    return {found.name: found for found in classes}


LOSSES = _shipped()
