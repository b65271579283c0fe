"""Finds the code of an environment's harness and of its reward, by reading files and following names, not running them.

A module is taken apart into statements. A name or a `self.x` in a method leads to the definition it may mean; what
these lead to counts too. Where the reading cannot tell (the object itself is handed on, the class is made inside a
function, `import *`), whole modules count for both sides: too much code means work done again, too little would mean a
stale cache.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.marks import marked_names, marked_steps, marked_weights
from rlft.environments.fingerprints.sources import Import, Library, docstrings_count, imports_in, unparse, walk
from rlft.errors import EnvironmentSetupError
from rlft.files import is_installed
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


_BASE_MODULE = "rlft.environments.contract.base"
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


# The methods of an environment that score attempts; all other methods of the contract belong to its harness.
REWARD_METHODS = frozenset(
    {
        "compute_reward",
        "compute_step_rewards",
        "demonstration",
        "final_answer",
        "gold_completion",
        "reward_fingerprint",
        "reward_maxima",
        "reward_minima",
        "reward_weights",
        "step_weights",
    }
)
_CONTRACT = frozenset(vars(BaseEnv)) - REWARD_METHODS


def environment_code(environment_class: type[BaseEnv]) -> CodeSides:
    """Return the code behind an environment's harness and behind its reward; what both use is in both.

    Raises `EnvironmentSetupError` for a class without a source file.
    """
    own = [each for each in environment_class.__mro__ if each not in BaseEnv.__mro__]
    read = [each for each in own if each.__module__.partition(".")[0] not in sys.stdlib_module_names]
    files = {each.__module__: _source_file(sys.modules.get(each.__module__), each.__name__) for each in read}
    library = _library(files)
    labels = {module: _label(module, path) for module, path in files.items()}
    modules = {module: Module.read(labels[module], path) for module, path in files.items()}
    marked = set(marked_weights(environment_class)) | set(marked_steps(environment_class))
    analysis = Analysis(library, REWARD_METHODS | marked, _CONTRACT | marked_names(environment_class))
    for each in read:
        analysis.add_class(modules[each.__module__], each.__qualname__)
    for module in modules.values():
        analysis.always.extend(Piece(module, node) for node in module.loose)
    return analysis.sides()


def module_code(module: ModuleType, setting: str = "environment.name") -> str:
    """Return the code of a loaded module and of all it imports, as text; installed modules count by their names alone.

    `setting` is the setting that names the module, for the error. Raises `EnvironmentSetupError` for a module without a
    source file.
    """
    path = _source_file(module, module.__name__, setting)
    if is_installed(path):
        return f"# module {module.__name__}\n"
    code = _library({module.__name__: path}).closure([_label(module.__name__, path)])
    return "\n".join(f"# module {name}\n{text}" for name, text in sorted(code.items()))


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
    """Return a name for the module that is the same wherever its file lies.

    A file that the config names is loaded as `rlft_file_...` with a hash, so the file's own name is taken.
    """
    return path.stem if module.startswith("rlft_file_") or module == "__main__" else module


def _library(files: dict[str, Path]) -> Library:
    """Return what is read as source: these modules, and what lies below the folders from which they are imported."""
    folders: dict[Path, None] = {}
    for module, path in files.items():
        depth = module.count(".") + (path.name == "__init__.py")
        folders[path.parents[depth]] = None  # the folder above the outermost package
    return Library(
        folders=(Path.cwd(), *folders),
        files={_label(module, path): path for module, path in files.items()},
        installed=frozenset(module.split(".")[0] for module, path in files.items() if is_installed(path)),
    )
