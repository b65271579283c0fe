"""The files that ZenML hands to the pods of a stack: what git knows of rlft's clone, and of a user's own repository.

A pod unpacks them into one folder, in which the run begins. So a path that is named from the working directory on leads
to the same file there, in the clone as in a repository of the user's own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from mlops.home.folder import PROJECT
from rlft.errors import StackError

# git sets these for a hook, and they would lead every call to the hook's repository.
_LEADS_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
_ZENML_SETTINGS = ".zen"  # ZenML changes it at every start; a pod is given its settings as variables


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
