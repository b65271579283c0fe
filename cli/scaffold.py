"""Writes a small environment to begin with: the files of `cli/templates/environment` under a name of one's own."""

from __future__ import annotations

import importlib.util
import keyword
import re
from importlib.resources import files
from pathlib import Path
from string import Template

from rlft.errors import ConfigError, StorageError

_FILES = {
    "environment.py.template": "{name}.py",
    "test.py.template": "test_{name}.py",
    "tasks.jsonl": "{name}.jsonl",
    "config.yaml.template": "{name}.yaml",
}


def write_environment(name: str, folder: Path) -> list[Path]:
    """Write environment, test, tasks and config to `folder`, and return where they are.

    Raises ConfigError for a name that cannot be imported as a module of its own and for files that are there already:
    then nothing is written. Raises StorageError where nothing can be written.
    """
    targets = {template: folder / target.format(name=name) for template, target in _FILES.items()}
    _check_name(name)
    if there := [target.name for target in targets.values() if target.exists()]:
        raise ConfigError(f"there already: {', '.join(there)}", where=str(folder), fix="choose another name")
    if importlib.util.find_spec(name) is not None:
        raise ConfigError(f"{name!r} is the name of an installed module", where="NAME", fix=f"say, {name}_tasks")
    source = files("cli") / "templates" / "environment"
    for template, target in targets.items():
        text = (source / template).read_text(encoding="utf-8")
        try:
            target.write_text(Template(text).substitute(name=name, class_name=class_name(name)), encoding="utf-8")
        except OSError as error:
            raise StorageError(
                f"cannot be written: {error}", where=str(target), fix="change to another folder"
            ) from error
    return list(targets.values())


def class_name(name: str) -> str:
    """Return the name of an environment's class: PriceList for `price_list`."""
    return "".join(part.capitalize() for part in name.split("_"))


def _check_name(name: str) -> None:
    """Raise ConfigError, which suggests a similar name, unless the name is a module's in snake case."""
    if re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) and not keyword.iskeyword(name):
        return
    near = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_0123456789")
    example = near if near and not keyword.iskeyword(near) else "my_tasks"
    raise ConfigError(
        f"{name!r} cannot be the name of a module",
        where="NAME",
        fix=f"use small letters, digits and underscores: {example}",
    )
