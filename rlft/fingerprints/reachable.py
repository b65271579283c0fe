"""The source code that an environment's harness and its reward consist of, found by reading files, not running them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from rlft.contract.base import BaseEnv
from rlft.contract.marks import marked_names, marked_steps, marked_weights
from rlft.errors import EnvironmentSetupError
from rlft.files import is_installed
from rlft.fingerprints.analysis import Analysis, CodeSides
from rlft.fingerprints.pieces import Module, Piece
from rlft.fingerprints.sources import Library

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
