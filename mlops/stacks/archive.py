"""The files that ZenML hands to the pods of a stack, and those that a run needs and they will not have.

Handed over is what git knows of rlft's clone, and of a user's own repository. A pod unpacks it into one folder, in
which the run begins. So a path that is named from the working directory on leads to the same file there. A path that is
absolute and not on this machine may well be one of a volume that the stack mounts, and is not refused.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from mlops.home.folder import PROJECT
from rlft.config import Config
from rlft.config.code import code_of
from rlft.errors import StackError
from rlft.files import is_installed, named_files
from rlft.training.algorithms import chosen_algorithm

_IN_FILES = ("jsonl", "csv", "parquet")


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
    same = _git(here, "rev-parse", "--show-toplevel") == _git(PROJECT, "rev-parse", "--show-toplevel")
    return found if same else _files_in(here) | found


def archive_users_files() -> None:
    """Make ZenML upload `archived_files`, once a process.

    ZenML has no setting for it. It lists one folder alone, and no file with a space or a letter beyond ASCII in its
    name; each would be missing in the pod.
    """
    from zenml.utils.code_utils import CodeArchive

    def get_files(archive: CodeArchive) -> dict[str, str]:
        return {name: str(file) for name, file in sorted(archived_files().items())}

    CodeArchive.get_files = get_files  # type: ignore[method-assign]


def is_archived(named: Path, files: dict[str, Path]) -> bool:
    """Return whether the archive holds a file, or all files of a folder, where a pod looks for the path.

    An absolute path leads elsewhere there. So does a link whose target is not in the archive.
    """
    if named.is_dir():
        inner = [Path(folder, each) for folder, _, names in os.walk(named) for each in names]
        return bool(inner) and all(is_archived(file, files) for file in inner)
    name = os.path.normpath(named)
    held = files.get(name)
    if held is None or not named.exists() or not held.samefile(named):
        return False
    return not held.is_symlink() or is_archived(Path(name).parent / held.readlink(), files)


def lacking_files(config: Config) -> list[StackError]:
    """Return an error that lists the files that a run will not find where it begins, if there are any."""
    files = archived_files()
    lacking = dict.fromkeys(f"{setting}: {file}" for setting, file in _named(config) if not is_archived(file, files))
    if not lacking:
        return []
    return [
        StackError(
            "the run begins in a folder with what git knows of rlft's clone and of the working directory, and without "
            "these files:\n  " + "\n  ".join(lacking),
            where="--stack",
            fix="run the command in the folder of a git repository that holds and does not ignore them, and name them "
            f"from there on, or copy them into {PROJECT} and run it there (docs/guide/kubernetes.md)",
        )
    ]


def _files_in(folder: Path) -> dict[str, Path]:
    """Return what git tracks in a folder, and what it neither tracks nor ignores."""
    names = filter(None, _git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"))
    found = {name: folder / name for name in names}
    # ZenML changes `.zen` at every start, and a pod is given its settings as variables.
    return {
        name: file
        for name, file in found.items()
        if ".zen" not in Path(name).parts and (file.is_file() or file.is_symlink())
    }


def _git(folder: Path, *arguments: str) -> str:
    """Return what git prints; nothing if the folder is in no repository, or there is no git."""
    command = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        return ""
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else ""


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
