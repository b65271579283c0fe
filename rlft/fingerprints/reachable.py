"""Which code an environment's harness consists of and which code its reward, by reading the class, not running it.

A name or a `self.x` in a method leads to the definition it may mean; what these lead to counts too. Where the reading
cannot tell (the object itself is handed on, the class is made inside a function, `import *`), whole modules count for
both sides: too much code means work done again, too little would mean a stale cache.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from rlft.contract.base import BaseEnv
from rlft.contract.marks import marked_names, marked_weights
from rlft.errors import EnvironmentSetupError
from rlft.files import is_installed
from rlft.fingerprints.sources import Import, Library, docstrings_count, imports_in, unparse, walk

REWARD_METHODS = frozenset(
    {
        "compute_reward",
        "demonstration",
        "final_answer",
        "gold_completion",
        "reward_fingerprint",
        "reward_maxima",
        "reward_weights",
    }
)
_CONTRACT = frozenset(vars(BaseEnv)) - REWARD_METHODS
_BASE_MODULE = "rlft.contract.base"


_Key = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class CodeSides:
    """The code of both sides as text; equal text, equal behaviour (no comments, no docstrings of rlft's own)."""

    harness: str
    reward: str


def environment_code(environment_class: type[BaseEnv]) -> CodeSides:
    """The code behind an environment's harness and behind its reward; what both use is in both.

    Raises `EnvironmentSetupError` for a class without a source file.
    """
    own = [each for each in environment_class.__mro__ if each not in BaseEnv.__mro__]
    read = [each for each in own if each.__module__.partition(".")[0] not in sys.stdlib_module_names]
    files = {each.__module__: _source_file(sys.modules.get(each.__module__), each.__name__) for each in read}
    library = _library(files)
    labels = {module: _label(module, path) for module, path in files.items()}
    modules = {module: _Module.read(labels[module], path) for module, path in files.items()}
    analysis = _Analysis(
        library, REWARD_METHODS | set(marked_weights(environment_class)), _CONTRACT | marked_names(environment_class)
    )
    for each in read:
        analysis.add_class(modules[each.__module__], each.__qualname__)
    for module in modules.values():
        analysis.always.extend(_Piece(module, node) for node in module.loose)
    return analysis.sides()


def module_code(module: ModuleType, setting: str = "environment.name") -> str:
    """The code of a loaded module and of all it imports, as text; installed modules stand there by name alone.

    `setting` is where it is named in the config. Raises `EnvironmentSetupError` for a module without a source file.
    """
    path = _source_file(module, module.__name__, setting)
    if is_installed(path):
        return f"# module {module.__name__}\n"
    code = _library({module.__name__: path}).closure([_label(module.__name__, path)])
    return "\n".join(f"# module {name}\n{text}" for name, text in sorted(code.items()))


@dataclass(frozen=True, slots=True, eq=False)
class _Module:
    """The top level of a module: what binds each name, and what runs without binding any."""

    label: str
    is_package: bool
    definitions: dict[str, list[ast.stmt]]
    imports: dict[str, list[Import]]
    loose: list[ast.stmt]

    @classmethod
    def read(cls, label: str, path: Path) -> _Module:
        module = cls(label, path.name == "__init__.py", defaultdict(list), defaultdict(list), [])
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if not (isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)):
                module._add(statement)
        return module

    def _add(self, statement: ast.stmt) -> None:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias, imported in zip(statement.names, imports_in(statement), strict=True):
                self.imports[alias.asname or alias.name.split(".")[0]].append(imported)
            return
        names = _bound_names(statement)
        for name in names:
            self.definitions[name].append(statement)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            self.definitions["__doc__"].append(statement)
        elif not names or isinstance(statement, (ast.For, ast.While, ast.With)):
            self.loose.append(statement)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A statement of a module; `self_name` is the first argument of a method, `in_body` true in a class body."""

    module: _Module
    node: ast.stmt
    self_name: str | None = None
    in_body: bool = False

    def text(self) -> str:
        label = self.module.label
        return f"# {label}\n{unparse(self.node, docstrings=docstrings_count(label))}"


@dataclass(slots=True)
class _Reached:
    pieces: dict[_Key, _Piece] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)

    def text(self, library: Library) -> str:
        whole = library.closure(sorted(self.modules | {_BASE_MODULE}))
        parts = [piece.text() for _, piece in sorted(self.pieces.items(), key=_first)]
        return "\n".join([*parts, *(f"# module {name}\n{code}" for name, code in sorted(whole.items()))])


class _Analysis:
    def __init__(self, library: Library, rewards: frozenset[str], contract: frozenset[str]) -> None:
        self.library, self.rewards, self.contract = library, rewards, contract
        self.always: list[_Piece] = []
        self.members: dict[str, list[_Piece]] = defaultdict(list)
        self.class_names: set[tuple[str, str]] = set()
        self.whole: set[str] = set()
        self.own: set[str] = set()

    def add_class(self, module: _Module, qualname: str) -> None:
        self.own.add(module.label)
        found = [node for node in module.definitions.get(qualname, ()) if isinstance(node, ast.ClassDef)]
        if len(found) != 1 or len(module.definitions[qualname]) != 1 or "*" in module.imports:
            self.whole.add(module.label)
            return
        node = found[0]
        self.class_names.add((module.label, node.name))
        header = ast.ClassDef(node.name, node.bases, node.keywords, [ast.Pass()], node.decorator_list)
        self.always.append(_Piece(module, ast.copy_location(header, node)))
        for statement in node.body:
            self._add_member(module, statement)

    def _add_member(self, module: _Module, statement: ast.stmt) -> None:
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            piece = _Piece(module, statement, in_body=True)
            for name in _bound_names(statement):
                self.members[name].append(piece)
            self.always.append(piece)
            return
        arguments = [*statement.args.posonlyargs, *statement.args.args]
        is_static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in statement.decorator_list)
        self_name = arguments[0].arg if arguments and not is_static else None
        piece = _Piece(module, statement, self_name)
        self.members[statement.name].append(piece)
        if statement.name.startswith("__") and statement.name.endswith("__"):
            self.always.append(piece)
        for attribute in _stored_attributes(statement, self_name):
            self.members[attribute].append(piece)

    def sides(self) -> CodeSides:
        reward = self._reach([*self.always, *(p for name in self.rewards for p in self.members.get(name, ()))])
        harness = self._reach([*self.always, *self._harness_roots(reward)])
        if self.whole or self.own & (reward.modules | harness.modules):
            for side in (reward, harness):
                side.modules |= self.own
        return CodeSides(harness.text(self.library), reward.text(self.library))

    def _harness_roots(self, reward: _Reached) -> Iterator[_Piece]:
        """Every member but the reward's methods and what nothing else than these leads to."""
        for name, pieces in self.members.items():
            if name not in self.rewards:
                yield from (p for p in pieces if name in self.contract or _key(p) not in reward.pieces)

    def _reach(self, roots: Iterable[_Piece]) -> _Reached:
        reached, waiting = _Reached(), list(roots)
        while waiting:
            piece = waiting.pop()
            if _key(piece) not in reached.pieces:
                reached.pieces[_key(piece)] = piece
                waiting.extend(self._references(piece, reached.modules))
        return reached

    def _references(self, piece: _Piece, modules: set[str]) -> Iterator[_Piece]:
        """The pieces that this one names; modules it needs whole are put into `modules`."""
        understood: set[int] = set()
        for node in walk(piece.node):
            for imported in imports_in(node):
                modules.update(self._targets(piece.module, imported))
            if isinstance(node, ast.Attribute) and (bare := self._receiver(node.value, piece)) is not None:
                understood.update(bare)
                yield from self.members.get(node.attr, ())
            elif isinstance(node, ast.Name) and id(node) not in understood:
                yield from self._named(node.id, piece, modules)

    def _receiver(self, value: ast.expr, piece: _Piece) -> set[int] | None:
        """The name nodes of `self`, `super()`, `type(self)` or one of the classes; `None` for anything else."""
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

    def _named(self, name: str, piece: _Piece, modules: set[str]) -> Iterator[_Piece]:
        if piece.in_body:
            yield from self.members.get(name, ())
        if self._is_class(name, piece.module):
            if not isinstance(piece.node, ast.ClassDef):
                modules.update(self.own)
        elif name == piece.self_name:
            modules.update(self.own)
        else:
            yield from (_Piece(piece.module, node) for node in piece.module.definitions.get(name, ()))
            for imported in piece.module.imports.get(name, ()):
                modules.update(self._targets(piece.module, imported))

    def _is_class(self, name: str, module: _Module) -> bool:
        if (module.label, name) in self.class_names:
            return True
        return any(
            (target, imported.name) in self.class_names
            for imported in module.imports.get(name, ())
            for target in self._targets(module, imported)
        )

    def _targets(self, module: _Module, imported: Import) -> tuple[str, ...]:
        return self.library.targets(imported, module.label, module.is_package)


def _key(piece: _Piece) -> _Key:
    return piece.module.label, piece.node.lineno, piece.node.col_offset


def _first(item: tuple[_Key, _Piece]) -> _Key:
    return item[0]


def _bound_names(statement: ast.stmt) -> set[str]:
    """Names that a statement binds or changes in its own scope, and globals that a function assigns."""
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
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _stored_attributes(method: ast.AST, self_name: str | None) -> set[str]:
    """Attributes of the object that a method assigns or changes: `self.x = ...`, `self.x[key] = ...`."""
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


def _source_file(module: ModuleType | None, name: str, setting: str = "environment.name") -> Path:
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).is_file() or Path(file).suffix != ".py":
        raise EnvironmentSetupError(
            f"the source of {name} cannot be read, so nothing it does could be cached safely",
            where=setting,
            fix="put it into a .py file",
        )
    return Path(file).resolve()


def _label(module: str, path: Path) -> str:
    """A name that is the same wherever the file lies; loaded files carry a hash in their module's name."""
    return path.stem if module.startswith("rlft_file_") or module == "__main__" else module


def _library(files: dict[str, Path]) -> Library:
    folders: dict[Path, None] = {}
    for module, path in files.items():
        depth = module.count(".") + (path.name == "__init__.py")
        folders[path.parents[depth]] = None
    return Library(
        folders=(Path.cwd(), *folders),
        files={_label(module, path): path for module, path in files.items()},
        installed=frozenset(module.split(".")[0] for module, path in files.items() if is_installed(path)),
    )
