"""Python modules as text: where they lie, what they import, and what of them matters. Nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from rlft.files import RLFT_FOLDER, is_installed


@dataclass(frozen=True, slots=True)
class Import:
    """One imported thing: `name` from `module` (`None`: the module itself), `level` dots before it."""

    module: str
    name: str | None
    level: int


@dataclass(frozen=True, slots=True)
class Library:
    """Which modules are read as source; all others count by their name alone.

    Those are rlft's own, those in `files` (by name), those under `folders` (in this order), and those of the installed
    packages named in `installed`.
    """

    folders: tuple[Path, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)
    installed: frozenset[str] = frozenset()

    def find(self, module: str) -> Path | None:
        """The file of a module that is read as source, or `None`."""
        if module in self.files:
            return self.files[module]
        top, *rest = module.split(".")
        if top == "rlft":
            return _file_of(RLFT_FOLDER.joinpath(*rest))
        found = (_file_of(folder.joinpath(top, *rest)) for folder in self.folders if module)
        return next((path for path in found if path and (top in self.installed or not is_installed(path))), None)

    def targets(self, imported: Import, importer: str, is_package: bool) -> tuple[str, ...]:
        """The modules that an import in module `importer` reads: `from a import b` is a.b where that is a module."""
        base = _absolute(imported, importer, is_package)
        if imported.name is not None and imported.name != "*" and self.find(f"{base}.{imported.name}"):
            return (f"{base}.{imported.name}",)
        return (base,)

    def closure(self, modules: Iterable[str]) -> dict[str, str]:
        """{module: its code} of these modules and all they import, as far as they are not installed ones.

        An installed module stands for itself with empty code. The `__init__` of a package counts only where something
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
    """Whether a model may read a module's docstrings: those of anyone's code (`__doc__`, a pydantic model's schema)
    but rlft's own."""
    return module.partition(".")[0] != "rlft"


@lru_cache(maxsize=1024)
def plain_code(text: str, *, docstrings: bool = False) -> str:
    """The code without comments and layout, and docstrings if they do not count: parsed and written again."""
    return unparse(ast.parse(text), docstrings=docstrings)


@lru_cache(maxsize=1024)
def imports_of(text: str) -> tuple[Import, ...]:
    """Everything a module imports, functions included, but not what stands under `if TYPE_CHECKING`."""
    return tuple(found for node in walk(ast.parse(text)) for found in imports_in(node))


def imports_in(node: ast.AST) -> list[Import]:
    """What one statement imports; nothing if it is no import."""
    if isinstance(node, ast.Import):
        return [Import(alias.name, None, 0) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [Import(node.module or "", alias.name, node.level) for alias in node.names]
    return []


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below and with this one, except what only a type checker reads."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        if isinstance(current, ast.If) and _is_type_checking(current.test):
            waiting.extend(current.orelse)
        else:
            waiting.extend(ast.iter_child_nodes(current))


def unparse(node: ast.AST, *, docstrings: bool = False) -> str:
    """The code of a node without comments, and without docstrings if these do not count."""
    return ast.unparse(node if docstrings else ast.fix_missing_locations(_WithoutDocstrings().visit(deepcopy(node))))


class _WithoutDocstrings(ast.NodeTransformer):
    """Drops strings that stand alone as statements; they do nothing."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [statement for statement in body if not _is_text(statement)]
            node.body = kept if kept or isinstance(node, ast.Module) else [ast.Pass()]  # type: ignore[attr-defined]
        return node


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
