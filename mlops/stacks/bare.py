"""A Python environment that has the packages of an image and no others, made of links to those that are installed here.

So an import fails in it that would fail in the image, and nothing is installed. Versions are those of this machine.
"""

from __future__ import annotations

import sys
import venv
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_FOLDER_OF_IMAGE = "/app"
# ZenML's entry point goes to /app, wherever the image's own working directory is. Here that is another folder.
_MOVED = """import os

def moved(function):
    def call(path, *arguments, **named):
        return function({folder!r} if path == {app!r} else path, *arguments, **named)
    return call

os.chdir, os.makedirs = moved(os.chdir), moved(os.makedirs)
"""


def make_bare(place: Path, asked: Iterable[Requirement], app: Path) -> tuple[Path, list[str]]:
    """Make an environment in `place` whose processes have `app` for the folder /app, and return its folder of programs.

    Returned, too, are the names of packages that are asked for and not installed here, and so are not in it.
    """
    venv.create(place, symlinks=True, with_pip=False)
    packages = place / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    installed: dict[str, Distribution] = {
        canonicalize_name(each.metadata["Name"]): each for each in reversed([*distributions()])
    }
    wanted = {canonicalize_name(each.name): each for each in asked if each.marker is None or each.marker.evaluate()}
    names = with_dependencies(wanted.values(), installed)
    _link(_tree(installed, names), packages)
    (packages / "rlft_moved.py").write_text(_MOVED.format(folder=str(app), app=_FOLDER_OF_IMAGE))
    (packages / "rlft_moved.pth").write_text("import rlft_moved\n")
    return place / "bin", sorted(set(wanted) - set(installed))


def with_dependencies(asked: Iterable[Requirement], installed: dict[str, Distribution]) -> set[str]:
    """Return the names of the installed packages that are asked for, and of those that they ask for in turn."""
    found: set[tuple[str, str]] = set()
    waiting = [(canonicalize_name(each.name), extra) for each in asked for extra in ("", *each.extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in found or name not in installed:
            continue
        found.add((name, extra))
        for text in installed[name].requires or ():
            each = Requirement(text)
            if each.marker is None or each.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(each.name), inner) for inner in ("", *each.extras)]
    return {name for name, _ in found}


def _tree(installed: dict[str, Distribution], names: set[str]) -> dict[str, Any]:
    """Return the files of all installed packages as nested maps by their names: of a file, whether it is wanted."""
    tree: dict[str, Any] = {}
    for name, package in installed.items():
        root = Path(str(package.locate_file("")))
        for file in package.files or ():
            if ".." in file.parts or "__pycache__" in file.parts or not (root / file.parts[0]).exists():
                continue
            folder = tree.setdefault(str(root), {})
            for part in file.parts[:-1]:
                folder = folder.setdefault(part, {})
            folder[file.parts[-1]] = folder.get(file.parts[-1], False) or name in names
    return tree


def _link(tree: dict[str, Any], target: Path) -> None:
    for root, inner in tree.items():
        _link_inner(inner, Path(root), target)


def _link_inner(inner: dict[str, Any], source: Path, target: Path) -> None:
    """Link a folder's entries: whole ones where all of them is wanted, single files where packages share a folder."""
    for name, entry in inner.items():
        place = target / name
        if place.exists() or not (wanted := set(_leaves(entry))) - {False}:
            continue
        if wanted == {True}:
            place.symlink_to(source / name)
        else:
            place.mkdir()
            _link_inner(entry, source / name, place)


def _leaves(entry: Any) -> Iterable[bool]:
    if isinstance(entry, dict):
        for inner in entry.values():
            yield from _leaves(inner)
    else:
        yield entry
