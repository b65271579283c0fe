"""What a user's own code imports, read from its text: files beside it, and packages that an image must have."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import packages_distributions, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rlft.files import OWN_PACKAGES
from rlft.fingerprints.sources import Import, Library, imports_in
from rlft.syntax import parse

_OPTIONAL = {"ImportError", "ModuleNotFoundError", "Exception"}


@dataclass
class Imported:
    """The files that code consists of, and the packages that it imports: by top-level name, the file that does."""

    files: list[Path] = field(default_factory=list)
    packages: dict[str, str] = field(default_factory=dict)


def imported_by(files: Iterable[Path]) -> Imported:
    """Return what these files import, and the files beside them or in the working directory that they import, too.

    Left out are Python's own modules, rlft's, and imports in a `try` that goes on without them. A file that cannot be
    parsed imports nothing here.
    """
    found, waiting = Imported(), [file for file in files if file.suffix == ".py"]
    while waiting:
        file = waiting.pop()
        if file in found.files:
            continue
        found.files.append(file)
        library = Library(folders=(Path(), file.parent))
        for each in _needed(file):
            if each.level:
                waiting += _relative(each, file)
                continue
            top = each.module.partition(".")[0]
            if top in sys.stdlib_module_names or top in OWN_PACKAGES:
                continue
            local = [library.find(f"{each.module}.{each.name}") if each.name else None, library.find(each.module)]
            if near := next((path for path in local if path), None):
                waiting.append(near)
            else:
                found.packages.setdefault(top, str(file))
    return found


def _needed(file: Path) -> Iterator[Import]:
    try:
        tree = parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):  # an import of it says so
        return
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield from imports_in(node)
        if isinstance(node, ast.Try) and any(_catches(handler) for handler in node.handlers):
            waiting += [*node.orelse, *node.finalbody]
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(node, ast.Name) and node.id in _OPTIONAL for node in ast.walk(handler.type))


def _relative(imported: Import, file: Path) -> list[Path]:
    """Return the files that `from .module import name` may mean; a package's folder counts by its `__init__`."""
    folder = file.parents[imported.level - 1]
    stem = folder.joinpath(*filter(None, imported.module.split(".")))
    stems = [stem / imported.name if imported.name else stem, stem]
    places = [place for each in stems for place in (each.with_suffix(".py"), each / "__init__.py")]
    return [place for place in places if place.is_file()][:1]


def wrong_packages(packages: dict[str, str], image: Iterable[Requirement]) -> list[str]:
    """Return what is wrong with the packages that are imported, a sentence each.

    A package is missing that no requirement of the image names; it is of the wrong version if what is installed here,
    with which the code was tried, is none that the image asks for.
    """
    asked: dict[str, list[Requirement]] = {}
    for requirement in image:
        asked.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    providers = packages_distributions()
    wrong = []
    for top, file in sorted(packages.items()):
        names = [*dict.fromkeys(canonicalize_name(name) for name in providers.get(top, []))]
        held = [name for name in names or [canonicalize_name(top)] if name in asked]
        if not held:
            here = f"it is of {names[0]}" if names else "it is not installed here, either"
            wrong.append(f"{file} imports {top}, which the image will not have ({here})")
            continue
        for name in held if names else []:
            here = version(name)
            wrong += [
                f"{file} imports {top}, of which {here} is here and the image will have {requirement}"
                for requirement in asked[name]
                if not requirement.specifier.contains(here, prereleases=True)
            ]
    return wrong
