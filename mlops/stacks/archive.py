"""The files that ZenML hands to the pods of a stack, and those that a run needs and they will not have.

Handed over is what git knows of rlft's clone, and of a user's own repository. A pod unpacks it into one folder, in
which the run begins. So a path that is named from the working directory on leads to the same file there, in the clone
as in a repository of the user's own. A path that is absolute and not on this machine may well be one of a volume that
the stack mounts, and is not refused.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlops.home.folder import PROJECT
from rlft.config import Config, SuiteConfig
from rlft.config.code import Code, code_of
from rlft.config.file import variables_of
from rlft.config.policy import PolicyConfig
from rlft.config.rollout import RolloutConfig
from rlft.errors import StackError
from rlft.files import OWN_PACKAGES, is_installed, named_files
from rlft.fingerprints.sources import Import, Library, imports_in
from rlft.suites.models import ModelName
from rlft.syntax import parse

# git sets these for a hook, and they would lead every call to the hook's repository.
_LEADS_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
_ZENML_SETTINGS = ".zen"  # ZenML changes it at every start; a pod is given its settings as variables
_IN_FILES = ("jsonl", "csv", "parquet")
_OPTIONAL = {"ImportError", "ModuleNotFoundError", "Exception"}


@dataclass(frozen=True, slots=True)
class Needs:
    """Configs, and beside them code, and variables as (setting, name). An image is made for the first config."""

    configs: tuple[Config, ...]
    code: tuple[Code, ...] = ()
    more_variables: tuple[tuple[str, str], ...] = ()

    def variables(self) -> Iterator[tuple[str, str]]:
        """Yield (setting, name) of every variable that is read."""
        for config in self.configs:
            yield from variables_of(config)
        yield from self.more_variables


def needs_of_suite(suite: SuiteConfig, models: Sequence[ModelName], key: str | None) -> Needs:
    """Return what an evaluation needs; `key` is `env:NAME` if a model's key is in a variable.

    Each scenario, and each model that may be a folder, is a config of a run that would need the same. These are not
    validated, as no such run is begun.
    """
    [first, *others] = [each.name for each in models if each.kind == "weights"] or [""]
    configs = [_as_of_run(suite, name, first) for name in suite.scenarios]
    configs += [_as_of_run(suite, next(iter(suite.scenarios)), folder) for folder in others]
    scorers = (name.rpartition(":")[0] for name in suite.scorers if ":" in name)
    code = tuple(Code("scorers", Path(file), is_module=False) for file in scorers if file.endswith(".py"))
    return Needs(tuple(configs), code, (("--api-key-env", key.removeprefix("env:")),) if key else ())


def archived_files() -> dict[str, Path]:
    """Return the files of the archive: where each lies below the folder in which the run begins, and where it is here.

    Where the working directory is in a repository of the user's own, beside the clone or within it, its files come too;
    of two of the same name rlft's stays. Raises StackError if rlft's folder is no clone: all of it, `.venv` too, would
    be uploaded.
    """
    found = _files_in(PROJECT)
    if not found:
        raise StackError(
            "git knows no files of rlft's folder, and would not keep .venv out of what is uploaded for the pods",
            where="--stack",
            fix=f"use a clone of rlft, or run `git init` in {PROJECT}; git must be installed",
        )
    here = Path.cwd().resolve()
    return found if _repository(here) == _repository(PROJECT) else _files_in(here) | found


def archive_users_files() -> None:
    """Make ZenML upload `archived_files`, once a process.

    ZenML has no setting for it. It lists one folder alone, of a repository inside of it the mere folder, and no file
    with a space or a letter beyond ASCII in its name; each would be missing in the pod.
    """
    from zenml.utils.code_utils import CodeArchive

    def get_files(archive: CodeArchive) -> dict[str, str]:
        return {name: str(file) for name, file in sorted(archived_files().items())}

    CodeArchive.get_files = get_files  # type: ignore[method-assign]


def is_archived(named: Path, files: dict[str, Path]) -> bool:
    """Return whether the archive holds a file, or all files of a folder, where a pod looks for the path.

    An absolute path leads elsewhere there. So does a link whose target is not in the archive.
    """
    name = os.path.normpath(named)
    if named.is_dir():
        inner = [Path(folder, each) for folder, _, names in os.walk(named) for each in names]
        return bool(inner) and all(is_archived(file, files) for file in inner)
    held = files.get(name)
    if held is None or not held.samefile(named):
        return False
    return not held.is_symlink() or is_archived(Path(name).parent / held.readlink(), files)


def lacking_files(needs: Needs) -> list[StackError]:
    """Return an error that lists what a run will not find where it begins, if there is anything.

    It begins in a folder that holds `archived_files`.
    """
    files = archived_files()
    named = [*files_of(needs), *_imported_files(needs)]
    lacking = [f"{setting}: {file}" for setting, file in named if not is_archived(file, files)]
    lacking += [f"{setting}: {file}" for setting, file in _modules_of_clone(needs) if file not in files.values()]
    lacking += [f"{setting}: {file} (it is not here, either)" for setting, file in _nowhere(needs)]
    if not lacking:
        return []
    return [
        StackError(
            "the run begins in a folder with what git knows of rlft's clone and of the working directory, and without "
            "these files:\n  " + "\n  ".join(dict.fromkeys(lacking)),
            where="--stack",
            fix="run the command in the folder of a git repository that holds and does not ignore them, and name them "
            f"from there on, or copy them into {PROJECT} and run it there (docs/guide/kubernetes.md)",
        )
    ]


def files_of(needs: Needs) -> Iterator[tuple[str, Path]]:
    """Yield each setting that names a file or folder of this machine, with the path as it is named.

    A module in the clone of rlft is left out: it is found by its name in the image, too. So is an installed package.
    """
    for code in _code(needs):
        if code.file is None or not code.file.exists() or (code.is_module and _is_found_by_name(code.file)):
            continue
        yield code.setting, _from_here(code.file)
    for config in needs.configs:
        yield from _data(config)


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


def named_packages(needs: Needs) -> dict[str, str]:
    """Return the installed packages whose modules the config names: {top-level name: setting}."""
    found = {}
    for code in _code(needs):
        if code.is_module and code.file is not None and is_installed(code.file):
            places = [place for place, part in enumerate(code.file.parts) if part in ("site-packages", "dist-packages")]
            found[Path(code.file.parts[places[-1] + 1]).stem] = code.setting
    return found


def users_code(needs: Needs) -> list[Path]:
    """Return the files of code that a config names and that are a user's own: rlft's come with it."""
    files = [code.file for code in _code(needs) if code.file is not None and code.file.exists()]
    return [file for file in files if not is_installed(file) and not _is_rlfts(file)]


def _as_of_run(suite: SuiteConfig, scenario: str, model: str) -> Config:
    part = suite.scenarios[scenario]
    given = {"tasks": part.tasks, "environment": part.environment, "reward": part.reward}
    return Config.model_construct(
        name=suite.name,
        policy=PolicyConfig.model_construct(model=model or None, chat_template=suite.policy.chat_template),
        rollout=RolloutConfig.model_construct(engine=suite.rollout.engine),
        **{name: each for name, each in given.items() if each is not None},
    )


def _repository(folder: Path) -> str:
    """Return the folder of the repository that a folder is in; nothing if it is in none."""
    return _git(folder, "rev-parse", "--show-toplevel")


def _files_in(folder: Path) -> dict[str, Path]:
    """Return what git tracks in a folder, and what it neither tracks nor ignores, also in repositories below it."""
    found: dict[str, Path] = {}
    for name in _listed(folder):
        file = folder / name
        if name.endswith("/"):  # another repository, of which git lists the folder alone
            found |= {f"{name}{inner}": path for inner, path in _files_in(file).items()}
        elif _ZENML_SETTINGS not in Path(name).parts[:-1] and (file.is_file() or file.is_symlink()):
            found[name] = file
    return found


def _listed(folder: Path) -> Iterator[str]:
    # Files of submodules can only be listed together with what is tracked, others only without.
    for options in (("--cached", "--recurse-submodules"), ("--others", "--exclude-standard")):
        yield from filter(None, _git(folder, "ls-files", "-z", *options).split("\0"))


def _git(folder: Path, *arguments: str) -> str:
    """Return what git prints; nothing if the folder is in no repository, or there is no git."""
    environment = {name: value for name, value in os.environ.items() if name not in _LEADS_ELSEWHERE}
    command = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
    except OSError:
        return ""
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else ""


def _data(config: Config) -> Iterator[tuple[str, Path]]:
    named = {
        **{f"{section}.path": source.path for section, source in config.tasks.sources().items()},
        "warm_start.path": config.warm_start and config.warm_start.path,
        "policy.model": config.policy.model,
        "policy.chat_template": config.policy.chat_template,
    }
    yield from ((setting, Path(name)) for setting, name in named.items() if name and Path(name).exists())
    yield from (("environment.kwargs", file) for file in named_files(config.environment.kwargs))


def _nowhere(needs: Needs) -> Iterator[tuple[str, Path]]:
    """Yield each setting that names a file from the working directory on which is not there."""
    named = [(code.setting, code.file) for code in _code(needs) if not code.is_module]
    sources = [each for config in needs.configs for each in config.tasks.sources().items()]
    named += [
        (f"{section}.path", Path(source.path))
        for section, source in sources
        if source.path and source.source in _IN_FILES
    ]
    yield from ((setting, file) for setting, file in named if file and not file.is_absolute() and not file.exists())


def _modules_of_clone(needs: Needs) -> Iterator[tuple[str, Path]]:
    """Yield each setting that names a module in the clone of rlft, with its file."""
    for code in _code(needs):
        if code.is_module and code.file is not None and not is_installed(code.file):
            file = code.file.resolve()
            if file.is_relative_to(PROJECT):
                yield code.setting, file


def _imported_files(needs: Needs) -> Iterator[tuple[str, Path]]:
    """Yield the files that the user's code imports, by the first word of what is said of them."""
    named = users_code(needs)
    yield from (("imported", _from_here(file)) for file in imported_by(named).files if file not in named)


def _code(needs: Needs) -> Iterator[Code]:
    for config in needs.configs:
        yield from code_of(config)
    yield from needs.code


def _is_rlfts(file: Path) -> bool:
    file = file.resolve()
    return file.is_relative_to(PROJECT) and file.relative_to(PROJECT).parts[0] in OWN_PACKAGES


def _from_here(file: Path) -> Path:
    """Return a path as it is named in the working directory, where it lies below that."""
    here = Path.cwd()
    return file.relative_to(here) if file.is_relative_to(here) else file


def _is_found_by_name(module: Path) -> bool:
    return is_installed(module) or module.resolve().is_relative_to(PROJECT)


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
