"""Finds the files of code that a config names, without running any of it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from rlft.config.experiment import Config
from rlft.config.section import is_import_path
from rlft.files import expanded, texts_in


@dataclass(frozen=True, slots=True)
class Code:
    """Code that a `setting` names, by a file's path or as a module.

    `file` is the path as it is named, or the module's file; `None` if there is no such module.
    """

    setting: str
    file: Path | None
    is_module: bool


def code_of(config: Config) -> Iterator[Code]:
    """Yield the code of the environment, of a loss that is no shipped one, of a specification, and of arguments.

    Of the environment's arguments only files are found, such as `rewards.py:exact`: another text with a colon may mean
    anything.
    """
    for environment in (config.environment.members() or {"": config.environment}).values():
        yield _code("environment.name", environment.name)
    if is_import_path(config.training.loss_type):
        yield _code("training.loss_type", config.training.loss_type)
    rewards = (config.reward.members or {"": config.reward}).values()
    functions = (name for reward in rewards if reward.spec is not None for name in reward.spec.functions())
    yield from (_code("reward.spec", name) for name in functions)
    for text in texts_in(config.environment.kwargs):
        if is_import_path(text):
            code = _code("environment.kwargs", text)
            if not code.is_module and code.file is not None and code.file.is_file():
                yield code


def _code(setting: str, name: str) -> Code:
    location = name.rpartition(":")[0]
    if location.endswith(".py"):
        return Code(setting, expanded(location), is_module=False)
    return Code(setting, _module_file(location), is_module=True)


def _module_file(module: str) -> Path | None:
    """Return the file of a module. Python looks up the first package alone: for what is in it, it would run it."""
    top, *rest = module.split(".")
    spec = _find_spec(top)
    if spec is None:
        return None
    if not rest:
        return Path(spec.origin) if spec.origin else None
    places = [Path(folder, *rest) for folder in spec.submodule_search_locations or ()]
    files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
    return next((file for file in files if file.is_file()), None)


def _find_spec(top: str) -> ModuleSpec | None:
    """Find a package or module in the working directory, as an import by rlft would first, or where Python looks."""
    try:
        return PathFinder.find_spec(top, [str(Path.cwd())]) or importlib.util.find_spec(top)
    except ValueError:  # an empty name, or a module that was not made by an import
        return None
