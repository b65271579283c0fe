"""Follows names from statement to statement, to find the code of an environment's harness and of its reward.

A name or a `self.x` in a method leads to the definition it may mean; what these lead to counts too. Where the reading
cannot tell (the object itself is handed on, the class is made inside a function, `import *`), whole modules count for
both sides: too much code means work done again, too little would mean a stale cache.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rlft.fingerprints.pieces import Module, Piece, bound_names, stored_attributes
from rlft.fingerprints.sources import Import, Library, imports_in, walk

_BASE_MODULE = "rlft.contract.base"
_Key = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class CodeSides:
    """The code of both sides as text, without comments and docstrings of rlft's own: equal text, equal behaviour."""

    harness: str
    reward: str


@dataclass(slots=True)
class _Reached:
    """What one side leads to: single statements, and modules that count as a whole."""

    pieces: dict[_Key, Piece] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)

    def text(self, library: Library) -> str:
        """Return the code of all of it, in an order that does not depend on how it was reached."""
        whole = library.closure(sorted(self.modules | {_BASE_MODULE}))
        parts = [piece.text() for _, piece in sorted(self.pieces.items(), key=_first)]
        return "\n".join([*parts, *(f"# module {name}\n{code}" for name, code in sorted(whole.items()))])


class Analysis:
    """Follows the code of one environment: its class and the base classes that are not rlft's.

    `rewards` are the names of the methods that score, `contract` those of the other methods that rlft itself calls.
    """

    def __init__(self, library: Library, rewards: frozenset[str], contract: frozenset[str]) -> None:
        self.library, self.rewards, self.contract = library, rewards, contract
        self.always: list[Piece] = []  # code of both sides
        self.members: dict[str, list[Piece]] = defaultdict(list)  # by name, over all classes of the environment
        self.class_names: set[tuple[str, str]] = set()  # (label of the module, name of the class)
        self.whole: set[str] = set()  # labels of modules whose class could not be taken apart
        self.own: set[str] = set()  # labels of the modules that the classes are in

    def add_class(self, module: Module, qualname: str) -> None:
        """Add a class of the environment with its members."""
        self.own.add(module.label)
        found = [node for node in module.definitions.get(qualname, ()) if isinstance(node, ast.ClassDef)]
        # An inner class has a dotted name that binds nothing; a name bound twice or hidden by `import *` is ambiguous.
        if len(found) != 1 or len(module.definitions[qualname]) != 1 or "*" in module.imports:
            self.whole.add(module.label)
            return
        node = found[0]
        self.class_names.add((module.label, node.name))
        header = ast.ClassDef(node.name, node.bases, node.keywords, [ast.Pass()], node.decorator_list)
        self.always.append(Piece(module, ast.copy_location(header, node)))
        for statement in node.body:
            self._add_member(module, statement)

    def _add_member(self, module: Module, statement: ast.stmt) -> None:
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            piece = Piece(module, statement, in_body=True)
            for name in bound_names(statement):
                self.members[name].append(piece)
            self.always.append(piece)
            return
        arguments = [*statement.args.posonlyargs, *statement.args.args]
        is_static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in statement.decorator_list)
        self_name = arguments[0].arg if arguments and not is_static else None
        piece = Piece(module, statement, self_name)
        self.members[statement.name].append(piece)
        if statement.name.startswith("__") and statement.name.endswith("__"):
            self.always.append(piece)
        for attribute in stored_attributes(statement, self_name):
            self.members[attribute].append(piece)

    def sides(self) -> CodeSides:
        """Return the code of both sides, after all classes have been added."""
        reward = self._reach([*self.always, *(p for name in self.rewards for p in self.members.get(name, ()))])
        harness = self._reach([*self.always, *self._harness_roots(reward)])
        if self.whole or self.own & (reward.modules | harness.modules):
            for side in (reward, harness):
                side.modules |= self.own
        return CodeSides(harness.text(self.library), reward.text(self.library))

    def _harness_roots(self, reward: _Reached) -> Iterator[Piece]:
        """Yield every member but the reward's methods, and but those to which only the reward leads."""
        for name, pieces in self.members.items():
            if name not in self.rewards:
                yield from (p for p in pieces if name in self.contract or _key(p) not in reward.pieces)

    def _reach(self, roots: Iterable[Piece]) -> _Reached:
        reached, waiting = _Reached(), list(roots)
        while waiting:
            piece = waiting.pop()
            if _key(piece) not in reached.pieces:
                reached.pieces[_key(piece)] = piece
                waiting.extend(self._references(piece, reached.modules))
        return reached

    def _references(self, piece: Piece, modules: set[str]) -> Iterator[Piece]:
        """Yield the pieces that this one names; add modules that it needs as a whole to `modules`."""
        understood: set[int] = set()
        for node in walk(piece.node):
            for imported in imports_in(node):
                modules.update(self._targets(piece.module, imported))
            if isinstance(node, ast.Attribute) and (bare := self._receiver(node.value, piece)) is not None:
                understood.update(bare)
                yield from self.members.get(node.attr, ())
            elif isinstance(node, ast.Name) and id(node) not in understood:
                yield from self._named(node.id, piece, modules)

    def _receiver(self, value: ast.expr, piece: Piece) -> set[int] | None:
        """Return the ids of the name nodes in `self`, `super()`, `type(self)` or a class of the environment.

        It is `None` for all else.
        """
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            if value.func.id == "super" and not value.args:
                return {id(value.func)}
            if value.func.id == "type" and len(value.args) == 1:
                inner = self._receiver(value.args[0], piece)
                return None if inner is None else inner | {id(value.func)}
        if isinstance(value, ast.Attribute) and value.attr == "__class__":
            return self._receiver(value.value, piece)
        if isinstance(value, ast.Name) and (value.id == piece.self_name or self._is_class(value.id, piece.module)):
            return {id(value)}
        return None

    def _named(self, name: str, piece: Piece, modules: set[str]) -> Iterator[Piece]:
        """Yield what a bare name may mean; where the class or `self` is handed on as a value, whole modules count."""
        if piece.in_body:
            yield from self.members.get(name, ())
        if self._is_class(name, piece.module):
            if not isinstance(piece.node, ast.ClassDef):
                modules.update(self.own)
        elif name == piece.self_name:
            modules.update(self.own)
        else:
            yield from (Piece(piece.module, node) for node in piece.module.definitions.get(name, ()))
            for imported in piece.module.imports.get(name, ()):
                modules.update(self._targets(piece.module, imported))

    def _is_class(self, name: str, module: Module) -> bool:
        if (module.label, name) in self.class_names:
            return True
        return any(
            (target, imported.name) in self.class_names
            for imported in module.imports.get(name, ())
            for target in self._targets(module, imported)
        )

    def _targets(self, module: Module, imported: Import) -> tuple[str, ...]:
        return self.library.targets(imported, module.label, module.is_package)


def _key(piece: Piece) -> _Key:
    return piece.module.label, piece.node.lineno, piece.node.col_offset


def _first(item: tuple[_Key, Piece]) -> _Key:
    return item[0]
