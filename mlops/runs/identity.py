"""Says which code, versions and user made an MLflow run: a few tags for people, and a file with all of it.

The commits are rlft's own and those of the user's repositories that it uses.
"""

from __future__ import annotations

import getpass
import os
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlops.home.folder import PROJECT
from mlops.runs.labels import Labels
from rlft.config import Config
from rlft.config.code import code_of
from rlft.config.file import holds_secret
from rlft.texts.secrets import MASK, redact

if TYPE_CHECKING:
    from rlft.environments.fingerprints import EnvironmentFingerprints

PACKAGES = ("zenml", "mlflow", "torch", "transformers", "peft")
_COMMANDS = ("rlft", "__main__.py")  # what the first word of a command line ends in that a person has typed


def identity_tags(config: Config, labels: Labels) -> dict[str, str]:
    """Return the tags that say who ran what; those of MLflow's own names are shown at the head of the run's page."""
    return {
        **labels.tags,
        **source_tags(),
        "rlft.name": config.name,
        "rlft.environment": config.environment_name,
    }


def source_tags() -> dict[str, str]:
    """Return the tags that MLflow shows as the source of a run and as who made it: this command, and its user."""
    return {
        "mlflow.user": _user(),
        # MLflow's page shows what stands behind the last slash, so there is none.
        "mlflow.source.name": " ".join(Path(word).name or word for word in _command()),
        "mlflow.source.type": "LOCAL",  # of MLflow's types the one whose name is shown as it is
        "mlflow.source.git.commit": rlft_commit(),
    }


def identity_facts(fingerprints: EnvironmentFingerprints, labels: Labels) -> dict[str, Any]:
    """Return the exact code and versions: commits, fingerprints of the environment's code, and packages."""
    return {
        "commits": {"rlft": rlft_commit(), **labels.commits},
        "fingerprints": {"environment": fingerprints.harness, "reward": fingerprints.reward},
        "packages": {package: version(package) for package in PACKAGES},
        "python": sys.version.split()[0],
        "command": shlex.join(_command()),
    }


def typed_command() -> str:
    """Return the command that was typed, as a shell reads it, without secrets; empty where a program began the run."""
    words = _command()
    return shlex.join(words) if len(words) > 1 else ""


def _user() -> str:
    """Return the operating system's user; in a pod there may be none of this number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _command() -> list[str]:
    """Return the words of the command that was typed, without secrets.

    It is `rlft` alone where a program began the run, as ZenML's does in a pod.
    """
    typed = sys.argv[1:] if Path(sys.argv[0]).name in _COMMANDS else []
    return ["rlft", *map(_without_secret, typed)]


def _without_secret(word: str) -> str:
    key, is_setting, value = word.partition("=")
    if is_setting and key.startswith("--"):  # as in --set=key=value
        return f"{key}={_without_secret(value)}"
    return f"{key}={MASK}" if is_setting and holds_secret(word) else redact(word)


RLFTS_OWN = "rlft's own"
NO_REPOSITORY = "no repository"
UNKNOWN = "unknown"
# core.fsmonitor may name a command in the repository's own settings, which looking must not run.
_ONLY_LOOK = ("-c", "core.fsmonitor=false")


def rlft_commit() -> str:
    """Return the commit of rlft's clone, with `-dirty` if files differ from it; `unknown` if rlft is no clone.

    An installed copy may lie within someone else's repository, whose commit would say nothing of rlft.
    """
    root = _git(PROJECT, "rev-parse", "--show-toplevel")
    return _commit(PROJECT) if root and Path(root).resolve() == PROJECT else UNKNOWN


def users_commits(path: Path, config: Config) -> dict[str, str]:
    """Return the commits of the repositories with the config's file, the code that it names, and `working_directory`.

    Code is found by the settings that name it (`rlft.config.code`). A commit has 40 hexadecimal digits, and `-dirty`
    behind it if a tracked file differs from it, or if the file itself is not in it.
    Where there is none the text says so: `rlft's own`, `no repository`, or `unknown` before the first commit. No
    address of a remote is read.
    """
    found: dict[str, list[str]] = {}
    for code in code_of(config):
        commit = UNKNOWN if code.file is None else _commit_of(code.file)
        found.setdefault(code.setting, []).append(commit)
    return {
        "config": _commit_of(path),
        **{setting: ", ".join(dict.fromkeys(commits)) for setting, commits in found.items()},
        "working_directory": _commit_of(Path.cwd()),
    }


def _commit_of(place: Path) -> str:
    """Return the commit of the repository that a file or a folder is in."""
    place = place.resolve()
    folder = place if place.is_dir() else place.parent
    # An installed package may lie in a .venv within the user's repository.
    root = None if "site-packages" in place.parts else _git(folder, "rev-parse", "--show-toplevel")
    if not root:
        return NO_REPOSITORY
    if Path(root).resolve() == PROJECT:
        return RLFTS_OWN
    commit = _commit(folder)
    is_new = place.is_file() and _git(folder, "ls-files", "--error-unmatch", "--", place.name) is None
    return f"{commit}-dirty" if is_new and len(commit) == 40 else commit  # else it is so already, or says why not


def _commit(folder: Path) -> str:
    # `describe` alone knows --dirty; excluding all tags leaves the commit.
    return _git(folder, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*") or UNKNOWN


def _git(folder: Path, *arguments: str) -> str | None:
    """Return what git says there, or `None` if it fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *_ONLY_LOOK, *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
