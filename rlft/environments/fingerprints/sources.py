"""Python modules as text: where their files lie, what they import, and their code without what does not matter.

Files are parsed and never imported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from rlft.files import RLFT_FOLDER, is_installed
from rlft.syntax import parse


@dataclass(frozen=True, slots=True)
class Import:
    """One import: `name` from `module`, or the module itself if `name` is `None`; `level` dots make it relative."""

    module: str
    name: str | None
    level: int


@dataclass(frozen=True, slots=True)
class Library:
    """Knows which modules are read as source; all others count by their name alone.

    Read are rlft's own modules, those in `files` (by name), and those below `folders` (in this order) that belong to no
    installed package, or to one that is named in `installed`.
    """

    folders: tuple[Path, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)
    installed: frozenset[str] = frozenset()

    def find(self, module: str) -> Path | None:
        """Return the file of a module that is read as source; `None` for any other module."""
        if module in self.files:
            return self.files[module]
        top, *rest = module.split(".")
        if top == "rlft":
            return _file_of(RLFT_FOLDER.joinpath(*rest))
        found = (_file_of(folder.joinpath(top, *rest)) for folder in self.folders if module)
        return next((path for path in found if path and (top in self.installed or not is_installed(path))), None)

    def targets(self, imported: Import, importer: str, is_package: bool) -> tuple[str, ...]:
        """Return the modules that an import in `importer` reads: `from a import b` reads a.b if that is a module."""
        base = _absolute(imported, importer, is_package)
        if imported.name is not None and imported.name != "*" and self.find(f"{base}.{imported.name}"):
            return (f"{base}.{imported.name}",)
        return (base,)

    def closure(self, modules: Iterable[str]) -> dict[str, str]:
        """Return {module: its code} of these modules and of all that they import.

        A module that is not read as source has empty code. The `__init__` of a package counts only where something
        is imported from it, not for being the parent of a module that is.
        """
        code: dict[str, str] = {}
        waiting = list(modules)
        while waiting:
            module = waiting.pop()
            if module in code:
                continue
            path = self.find(module)
            if path is None:
                code[module] = ""
                continue
            text = path.read_text(encoding="utf-8")
            code[module] = plain_code(text, docstrings=docstrings_count(module))
            is_package = path.name == "__init__.py"
            for imported in imports_of(text):
                waiting.extend(self.targets(imported, module, is_package))
        return code


def docstrings_count(module: str) -> bool:
    """Return whether the docstrings of a module count as code: those of others than rlft do.

    A model may read them, by `__doc__` or in the schema of a pydantic model.
    """
    return module.partition(".")[0] != "rlft"


@lru_cache(maxsize=1024)
def plain_code(text: str, *, docstrings: bool = False) -> str:
    """Return the code without comments and layout, and without docstrings unless they count."""
    tree = parse(text)
    return ast.unparse(tree if docstrings else _drop_docstrings(tree))


@lru_cache(maxsize=1024)
def imports_of(text: str) -> tuple[Import, ...]:
    """Return everything that a module imports, also within functions, but not what stands under `if TYPE_CHECKING`."""
    return tuple(found for node in walk(parse(text)) for found in imports_in(node))


def imports_in(node: ast.AST) -> list[Import]:
    """Return what one statement imports; nothing if it is no import."""
    if isinstance(node, ast.Import):
        return [Import(alias.name, None, 0) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [Import(node.module or "", alias.name, node.level) for alias in node.names]
    return []


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield this node and all below it, except what stands under `if TYPE_CHECKING`."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        if isinstance(current, ast.If) and _is_type_checking(current.test):
            waiting.extend(current.orelse)
        else:
            waiting.extend(ast.iter_child_nodes(current))


def unparse(node: ast.AST, *, docstrings: bool = False) -> str:
    """Return the code of a node without comments, and without docstrings unless they count."""
    return ast.unparse(node if docstrings else _drop_docstrings(deepcopy(node)))


def _drop_docstrings(tree: ast.AST) -> ast.AST:
    """Remove strings that stand alone as statements, docstrings among them, from a tree; they do nothing when run."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [statement for statement in body if not _is_text(statement)]
            node.body = kept if kept or isinstance(node, ast.Module) else [ast.Pass()]  # type: ignore[attr-defined]
    return tree


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def _file_of(stem: Path) -> Path | None:
    candidates = (stem / "__init__.py", stem.with_name(stem.name + ".py"))
    return next((path for path in candidates if path.is_file()), None)


def _absolute(imported: Import, importer: str, is_package: bool) -> str:
    if not imported.level:
        return imported.module
    parts = importer.split(".")
    keep = len(parts) - imported.level + is_package
    return ".".join([*parts[:keep], *([imported.module] if imported.module else [])])
