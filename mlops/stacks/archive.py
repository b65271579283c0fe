"""The files that ZenML hands to the pods of a stack, and those that a run needs and they will not have.

Handed over is what git knows of rlft's clone, and of submodules in it (`CodeArchive` of ZenML). A pod unpacks it into
one folder, in which the run begins. So a path that is named from the clone on leads to the same file there. A path that
is absolute and not on this machine may well be one of a volume that the stack mounts, and is not refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from mlops.home.folder import PROJECT
from rlft.config import Config
from rlft.config.code import code_of
from rlft.errors import StackError
from rlft.files import is_installed, named_files
from rlft.training.algorithms import chosen_algorithm

_IN_FILES = ("jsonl", "csv", "parquet")


def lacking_files(config: Config) -> list[StackError]:
    """Return an error that lists the files that a run will not find where it begins, if there are any.

    So too if rlft's folder is no clone: all of it, `.venv` too, would be uploaded.
    """
    from zenml.utils.code_utils import CodeArchive

    archive = CodeArchive(root=str(PROJECT))
    if archive.git_repo is None:
        what = "rlft's folder is no git repository, and would be uploaded whole for the pods, .venv too"
        return [StackError(what, where="--stack", fix=f"use a clone of rlft, or run `git init` in {PROJECT}")]
    held = archive.get_files()
    lacking = dict.fromkeys(f"{setting}: {file}" for setting, file in _named(config) if not _is_held(file, held))
    if not lacking:
        return []
    what = "the run begins in a folder with what git knows of rlft's clone, and without these files:\n  "
    fix = (
        f"put them into {PROJECT}, where git does not ignore them, and run the command there (docs/guide/kubernetes.md)"
    )
    return [StackError(what + "\n  ".join(lacking), where="--stack", fix=fix)]


def _is_held(named: Path, held: dict[str, str]) -> bool:
    """Return whether the archive holds a file, or files of a folder, where a pod looks for the path."""
    name = os.path.normpath(named)
    there = [each for each in held if each == name or each.startswith(f"{name}/")]
    return named.exists() and any(Path(held[each]).samefile(Path.cwd() / each) for each in there)


def _named(config: Config) -> Iterator[tuple[str, Path]]:
    """Yield each setting that names a file or folder from the working directory on, or one that is there.

    A module in the clone of rlft is left out: it is found by its name in the image, too. So is an installed package.
    """
    for code in code_of(config):
        if code.file is None or (code.is_module and (is_installed(code.file) or _is_in_clone(code.file))):
            continue
        if code.file.exists() or not code.file.is_absolute():
            yield code.setting, _from_here(code.file)
    sources = config.tasks.sources()
    named = {
        **{f"{section}.path": source.path for section, source in sources.items()},
        "warm_start.path": config.warm_start and config.warm_start.path,
        **{f"training.{name}": getattr(config.training, name) for name in chosen_algorithm(config.training).paths},
        "policy.model": config.policy.model,
        "policy.chat_template": config.policy.chat_template,
    }
    must = {f"{section}.path" for section, source in sources.items() if source.source in _IN_FILES}
    for setting, name in named.items():
        if name and (Path(name).exists() or (setting in must and not Path(name).is_absolute())):
            yield setting, Path(name)
    yield from (("environment.kwargs", file) for file in named_files(config.environment.kwargs))


def _is_in_clone(file: Path) -> bool:
    return file.resolve().is_relative_to(PROJECT)


def _from_here(file: Path) -> Path:
    """Return a path as it is named in the working directory, where it lies below that."""
    here = Path.cwd()
    return file.relative_to(here) if file.is_relative_to(here) else file
