"""Says which code, versions and user made an MLflow run: a few tags for people, and a file with all of it."""

from __future__ import annotations

import getpass
import shlex
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mlflow.utils.mlflow_tags import (
    MLFLOW_GIT_COMMIT,
    MLFLOW_PARENT_RUN_ID,
    MLFLOW_SOURCE_NAME,
    MLFLOW_SOURCE_TYPE,
    MLFLOW_USER,
)

from mlops.runs.commits import rlft_commit
from mlops.runs.labels import Labels
from rlft.config import Config
from rlft.config.file import holds_secret
from rlft.fingerprints.identity import EnvironmentFingerprints
from rlft.secrets import MASK, redact

PACKAGES = ("zenml", "mlflow", "torch", "transformers", "peft")
_COMMANDS = ("rlft", "__main__.py")  # what the first word of a command line ends in that a person has typed


_PARENT, _SUMMARY = "--parent", "--summary"  # options that a sweep gives its runs


def identity_tags(config: Config, labels: Labels) -> dict[str, str]:
    """Return the tags that say who ran what; those of MLflow's own names are shown at the head of the run's page."""
    return {
        **labels.tags,
        **({MLFLOW_PARENT_RUN_ID: labels.parent} if labels.parent else {}),
        **source_tags(),
        "rlft.name": config.name,
        "rlft.environment": config.environment_name,
    }


def source_tags() -> dict[str, str]:
    """Return the tags that MLflow shows as the source of a run and as who made it: this command, and its user."""
    return {
        MLFLOW_USER: _user(),
        # MLflow's page shows what stands behind the last slash, so there is none.
        MLFLOW_SOURCE_NAME: " ".join(Path(word).name or word for word in _command()),
        MLFLOW_SOURCE_TYPE: "LOCAL",  # of MLflow's types the one whose name is shown as it is
        MLFLOW_GIT_COMMIT: rlft_commit(),
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

    It is `rlft` alone where a program began the run, as ZenML's does in a pod. A sweep begins its runs by a command
    that a person can type, too, but for where the run stands in MLflow and where the sweep reads what came of it.
    """
    typed = sys.argv[1:] if Path(sys.argv[0]).name in _COMMANDS else []
    if _PARENT in typed:
        left_out = {
            place + behind for place, word in enumerate(typed) if word in (_PARENT, _SUMMARY) for behind in (0, 1)
        }
        typed = [word for place, word in enumerate(typed) if place not in left_out]
    return ["rlft", *map(_without_secret, typed)]


def _without_secret(word: str) -> str:
    key, is_setting, value = word.partition("=")
    if is_setting and key.startswith("--"):  # as in --set=key=value
        return f"{key}={_without_secret(value)}"
    return f"{key}={MASK}" if is_setting and holds_secret(word) else redact(word)
