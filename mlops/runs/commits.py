"""Finds the commits that a run comes from: rlft's own, and those of the user's repositories that it uses."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from mlops.home.folder import PROJECT
from rlft.config import Config
from rlft.config.code import code_of

RLFTS_OWN = "rlft's own"
NO_REPOSITORY = "no repository"
UNKNOWN = "unknown"
_PLACES = {
    "environment.name": "environment",
    "training.loss_type": "loss",
    "environment.kwargs": "environment.kwargs",
    "reward.spec": "reward.spec",
}
# git sets these for a hook, and they would lead every call to the hook's repository.
_LEADS_ELSEWHERE = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
)
# core.fsmonitor may name a command in the repository's own settings, which looking must not run. A file's name is taken
# as it is, not as a pattern.
_ONLY_LOOK = ("-c", "core.fsmonitor=false", "--literal-pathspecs")


def rlft_commit() -> str:
    """Return the commit of rlft's clone, with `-dirty` if files differ from it; `unknown` if rlft is no clone.

    An installed copy may lie within someone else's repository, whose commit would say nothing of rlft.
    """
    return _commit(PROJECT) if _root(PROJECT) == PROJECT else UNKNOWN


def users_commits(path: Path, config: Config) -> dict[str, str]:
    """Return the commits of the repositories with the config's file, the code that it names, and `working_directory`.

    The code is that of the `environment`, of a `loss` that is no shipped one, and in `environment.kwargs` and
    `reward.spec`. A commit has
    40 hexadecimal digits, and `-dirty` behind it if a tracked file differs from it, or if the file itself is not in it.
    Where there is none the text says so: `rlft's own`, `no repository`, or `unknown` if git cannot tell. No address of
    a remote is read.
    """
    found: dict[str, list[str]] = {}
    for code in code_of(config):
        commit = UNKNOWN if code.file is None else _commit_of_file(code.file)
        found.setdefault(_PLACES[code.setting], []).append(commit)
    return {
        "config": _commit_of_file(path),
        **{place: ", ".join(dict.fromkeys(commits)) for place, commits in found.items()},
        "working_directory": _commit_of_folder(Path.cwd()),
    }


def _commit_of_file(file: Path) -> str:
    file = file.resolve()
    if "site-packages" in file.parts:  # an installed package, perhaps in a .venv within the user's repository
        return NO_REPOSITORY
    commit = _commit_of_folder(file.parent)
    has_commit = len(commit) == 40  # else it is `-dirty` already, or says why there is none
    if has_commit and _git(file.parent, "ls-files", "--error-unmatch", "--", file.name) is None:
        return f"{commit}-dirty"
    return commit


def _commit_of_folder(folder: Path) -> str:
    root = _root(folder)
    if root is None:
        in_one = any((above / ".git").exists() for above in (folder, *folder.parents))
        return UNKNOWN if in_one else NO_REPOSITORY
    return RLFTS_OWN if root == PROJECT else _commit(root)


def _root(folder: Path) -> Path | None:
    found = _git(folder, "rev-parse", "--show-toplevel")
    return Path(found).resolve() if found else None


def _commit(root: Path) -> str:
    # `describe` alone knows --dirty; excluding all tags leaves the commit.
    return _git(root, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*") or UNKNOWN


def _git(folder: Path, *arguments: str) -> str | None:
    """Return what git says there, or `None` if it fails."""
    variables = {name: value for name, value in os.environ.items() if name not in _LEADS_ELSEWHERE}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *_ONLY_LOOK, *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
            env={**variables, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
