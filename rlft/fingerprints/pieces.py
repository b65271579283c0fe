"""Modules taken apart into statements, and which names and attributes each statement binds."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from rlft.fingerprints.sources import Import, docstrings_count, imports_in, unparse, walk
from rlft.syntax import parse


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """The top level of a module: the statements and imports that bind each name, and the loose ones that bind none.

    `label` is the module's name, the same wherever its file lies. `if __name__ ...` blocks are left out.
    """

    label: str
    is_package: bool
    definitions: dict[str, list[ast.stmt]]
    imports: dict[str, list[Import]]
    loose: list[ast.stmt]

    @classmethod
    def read(cls, label: str, path: Path) -> Module:
        """Parse the file of a module."""
        module = cls(label, path.name == "__init__.py", defaultdict(list), defaultdict(list), [])
        for statement in parse(path.read_text(encoding="utf-8")).body:
            if not (isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)):
                module._add(statement)
        return module

    def _add(self, statement: ast.stmt) -> None:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias, imported in zip(statement.names, imports_in(statement), strict=True):
                self.imports[alias.asname or alias.name.split(".")[0]].append(imported)
            return
        names = bound_names(statement)
        for name in names:
            self.definitions[name].append(statement)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            self.definitions["__doc__"].append(statement)
        # Loops and `with` do more than bind the names that are found in them.
        elif not names or isinstance(statement, (ast.For, ast.While, ast.With)):
            self.loose.append(statement)


@dataclass(frozen=True, slots=True)
class Piece:
    """A statement of a module.

    `self_name` is the name of the first argument if it is a method. `in_body` is true for a statement in the body of a
    class that is no method, where names of other members can be used without `self`.
    """

    module: Module
    node: ast.stmt
    self_name: str | None = None
    in_body: bool = False

    def text(self) -> str:
        """Return the code of the statement below the label of its module."""
        label = self.module.label
        return f"# {label}\n{unparse(self.node, docstrings=docstrings_count(label))}"


def bound_names(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds or changes in its scope, and the globals that a function assigns."""
    if isinstance(statement, ast.ClassDef):
        return {statement.name}
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return {statement.name}.union(*(node.names for node in ast.walk(statement) if isinstance(node, ast.Global)))
    names: set[str] = set()
    for node in walk(statement):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            names.update(_root_name(node))
    return names


def _root_name(node: ast.expr) -> set[str]:
    """Return the name `x` in `x.a[0].b`; nothing if the expression does not begin with a name."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def stored_attributes(method: ast.AST, self_name: str | None) -> set[str]:
    """Return the attributes of `self` that a method assigns or changes: `self.x = ...`, `self.x[key] = ...`."""
    stored: set[str] = set()
    for node in ast.walk(method):
        if not isinstance(node, (ast.Attribute, ast.Subscript)) or isinstance(node.ctx, ast.Load):
            continue
        inner: ast.expr = node
        while isinstance(inner, (ast.Attribute, ast.Subscript)):
            if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == self_name:
                stored.add(inner.attr)
            inner = inner.value
    return stored
