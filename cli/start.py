"""Checks before a run begins, so that one that cannot work leaves nothing behind in ZenML or MLflow."""

from __future__ import annotations

import logging
import os

from mlops.home.folder import Home
from rlft.config import Config
from rlft.config.file import check_variables
from rlft.errors import NotReadyError, StorageError
from rlft.estimation.readiness import find_problems, raised_by

logger = logging.getLogger(__name__)


def say_start(name: str) -> None:
    """Log the first line of a run, before the imports that take long."""
    logger.info("%s begins: its set-up is checked, then ZenML, MLflow and torch are loaded: usually 10 s", name)


def check_kept(home: Home) -> None:
    """Raise StorageError if runs cannot be stored in the home; no folder is made."""
    place = next(folder for folder in (home.root, *home.root.parents) if folder.exists())
    fix = "set RLFT_HOME to a folder of yours"
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise StorageError("no folder can be made or written there", where=str(place), fix=fix)
    for file in home.databases:
        if file.exists() and not os.access(file, os.W_OK):
            fix = f"make it writable for you (chmod, chown), or {fix}"
            raise StorageError("this cannot be written by this user", where=str(file), fix=fix)


def check_start(config: Config, home: Home, *, stack: str | None) -> None:
    """Raise NotReadyError, which lists everything that keeps the run from starting, if there is anything.

    Where a `stack` runs it, paths, packages, variables and devices are those of its machines: then only the place that
    this command itself writes to is checked.
    """
    problems = raised_by([lambda: check_kept(home)])
    if stack is None:
        problems += raised_by([lambda: check_variables(config)]) or find_problems(config, home.root)
    if problems:
        raise NotReadyError(problems)
