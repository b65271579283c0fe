"""Hashes of code, for cache keys: the same fingerprint means that the same code would run.

A module counts with all that it imports, also inside functions, from rlft, the project and the user's folder; installed
packages count by their names alone. Files are read as they are now, and never imported. In the user's own files
comments and layout do not count; docstrings do, as a model may read them. Code that is found only at run time
(`importlib.import_module`, entry points) is not seen.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any

from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.faults import calling
from rlft.environments.contract.loading import constructed_modules
from rlft.environments.contract.marks import marked_steps, marked_tools, marked_weights
from rlft.environments.contract.several import Several, without_specification, written_class
from rlft.errors import EnvironmentSetupError
from rlft.files import RLFT_FOLDER, file_hash, is_installed, named_files
from rlft.texts.syntax import parse

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


@lru_cache(maxsize=1024)
def imports_of(text: str) -> tuple[tuple[str, str], ...]:
    """Return everything that a module imports, also within functions, as (module, name).

    The name is empty for the module itself. A relative module begins with dots.
    """
    found: list[tuple[str, str]] = []
    for node in ast.walk(parse(text)):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [("." * node.level + (node.module or ""), alias.name) for alias in node.names]
    return tuple(found)


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

    def closure(self, modules: Iterable[str]) -> dict[str, str]:
        """Return {module: its code} of these modules and of all that they import.

        A module that is not read as source has empty code. The `__init__` of a package counts only where something
        is imported from it, not for being the parent of a module that is.
        """
        code: dict[str, str] = {}
        waiting = list(modules)
        while waiting:
            if (module := waiting.pop()) in code:
                continue
            if (path := self.find(module)) is None:
                code[module] = ""
                continue
            code[module] = path.read_text(encoding="utf-8")
            package = module if path.name == "__init__.py" else module.rpartition(".")[0]
            for base, name in imports_of(code[module]):
                base = resolve_name(base, package)
                inner = f"{base}.{name}"  # which `from a import b` reads if it is a module
                waiting.append(inner if name and self.find(inner) else base)
        return code


def _file_of(stem: Path) -> Path | None:
    candidates = (stem / "__init__.py", stem.with_name(stem.name + ".py"))
    return next((path for path in candidates if path.is_file()), None)


@dataclass(frozen=True, slots=True)
class EnvironmentFingerprints:
    """Two hashes (sha256, hexadecimal): a new `harness` means sampling again, a new `reward` only scoring again."""

    harness: str
    reward: str


def code_fingerprint(*modules: str) -> str:
    """Return a hash (sha256, hexadecimal) of these `rlft` modules and of every `rlft` module that they import.

    Raises `ModuleNotFoundError` for a name that is no module of rlft.
    """
    library = Library()
    for module in modules:
        if library.find(module) is None:
            raise ModuleNotFoundError(f"code_fingerprint: rlft has no module {module!r}", name=module)
    return _digest({name: code for name, code in library.closure(modules).items() if library.find(name)})


def module_code(module: ModuleType, setting: str = "environment.name") -> str:
    """Return the code of a loaded module and of all it imports, as text; installed modules count by their names alone.

    `setting` is the setting that names the module, for the error. Raises `EnvironmentSetupError` for a module without a
    source file.
    """
    path = _source_file(module, module.__name__, setting)
    if is_installed(path):
        return module.__name__
    return _as_text(_library({module.__name__: path}).closure([_label(module.__name__, path)]))


def environment_fingerprints(environment: BaseEnv, name: str, kwargs: Mapping[str, Any]) -> EnvironmentFingerprints:
    """Return hashes of an environment's two sides, so that after an edit of its reward nothing is sampled again.

    Both cover the class's name, `kwargs`, the bytes of files that these name and the code of the objects they make
    (`contract.loading.construct`), `data_fingerprint()`, and the files of the class with all that they import. `reward`
    covers `reward_fingerprint()` too. `harness` leaves out the methods that only score (`REWARD_METHODS` and those
    marked as rewards), but for those which other code of these files names, and covers what a model reads of marked
    tools. `name` is the import path or file and class of the config; where the file lies does not matter.

    Where the reward is a specification, only `reward` changes with it. Those of several environments are made of each
    member's. Raises `EnvironmentSetupError` for arguments that are not JSON and for a class without a source file.
    """
    if isinstance(environment, Several):
        named = kwargs["members"]
        found = {each: environment_fingerprints(one, **named[each]) for each, one in environment.members.items()}
        return EnvironmentFingerprints(
            harness=_digest({each: prints.harness for each, prints in found.items()}),
            reward=_digest({each: prints.reward for each, prints in found.items()}),
        )
    kwargs = without_specification(kwargs)  # which is the reward's alone: `reward_fingerprint` has it
    try:
        arguments = json.dumps(kwargs, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise EnvironmentSetupError(
            f"the arguments are not JSON: {error}",
            where="environment.kwargs",
            fix="use text, numbers, booleans, lists and maps",
        ) from error
    with calling("data_fingerprint"):
        data = [environment.data_fingerprint(), *(file_hash(path) for path in named_files(kwargs))]
    shared = {"class": name.rpartition(":")[2], "kwargs": arguments, "data": json.dumps(data)}
    shared |= {f"made {place}": module_code(module) for place, module in enumerate(constructed_modules(kwargs))}
    harness, reward = environment_code(written_class(environment))
    tools = json.dumps([spec.to_json() for spec in marked_tools(environment)], sort_keys=True, default=str)
    return EnvironmentFingerprints(
        harness=_digest({**shared, "code": harness, "tools": tools}),
        reward=_digest({**shared, "code": reward, "named": environment.reward_fingerprint()}),
    )


def environment_code(environment_class: type[BaseEnv]) -> tuple[str, str]:
    """Return the code behind an environment's harness and behind its reward; see `environment_fingerprints`.

    Raises `EnvironmentSetupError` for a class without a source file.
    """
    classes = [each for each in environment_class.__mro__ if each not in BaseEnv.__mro__]
    read = [each for each in classes if each.__module__.partition(".")[0] not in sys.stdlib_module_names]
    files = {each.__module__: _source_file(sys.modules.get(each.__module__), each.__name__) for each in read}
    own = [_label(module, path) for module, path in files.items()]
    code = _library(files).closure([*own, "rlft.environments.contract.base"])
    rewards = REWARD_METHODS | set(marked_weights(environment_class)) | set(marked_steps(environment_class))
    return _as_text({**code, **_without(rewards, {label: code[label] for label in own})}), _as_text(code)


def _without(methods: Collection[str], code: Mapping[str, str]) -> dict[str, str]:
    """Return the code of modules without these methods of their classes, but for those that the rest of it names."""
    left_out = set(methods)
    while True:
        trees = {label: parse(text) for label, text in code.items()}
        for node in (node for tree in trees.values() for node in ast.walk(tree)):
            if isinstance(node, ast.ClassDef):
                node.body = [each for each in node.body if getattr(each, "name", "") not in left_out] or [ast.Pass()]
        needed = left_out.intersection(name for tree in trees.values() for name in _names(tree))
        if not needed:
            return {label: ast.unparse(tree) for label, tree in trees.items()}
        left_out -= needed


def _names(tree: ast.AST) -> Iterator[str]:
    """Yield the names and attributes that are used in a tree, and its texts, as `getattr` takes them."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Constant(value=str(name)):
                yield name


def _digest(content: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _as_text(code: Mapping[str, str]) -> str:
    """Return the code of modules as one text, without comments and layout where it is not rlft's own."""
    plain = {name: text if name.startswith("rlft.") else ast.unparse(parse(text)) for name, text in code.items()}
    return "\n".join(f"# module {name}\n{text}" for name, text in sorted(plain.items()))


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


def _library(files: Mapping[str, Path]) -> Library:
    """Return what is read as source: these modules, and what lies below the folders from which they are imported."""
    # The folder above the outermost package of each.
    folders = [path.parents[module.count(".") + (path.name == "__init__.py")] for module, path in files.items()]
    return Library(
        folders=(Path.cwd(), *dict.fromkeys(folders)),
        files={_label(module, path): path for module, path in files.items()},
        installed=frozenset(module.split(".")[0] for module, path in files.items() if is_installed(path)),
    )
