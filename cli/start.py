"""Checks before a run begins, so that one that cannot work leaves nothing behind in ZenML or MLflow."""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path
from shlex import quote

from mlops.home.folder import Home
from mlops.home.last_calls import KILLED, how_it_ended
from mlops.home.processes import dead_notes
from rlft.config import Config
from rlft.config.file import check_variables
from rlft.errors import NotReadyError, RlftError, StorageError
from rlft.readiness import find_problems

logger = logging.getLogger(__name__)


def say_start(name: str) -> None:
    """Log the first line of a run, before the imports that take long."""
    logger.info("%s begins: its set-up is checked, then ZenML, MLflow and torch are loaded, which takes seconds", name)


def tell_dead(home: Home) -> None:
    """Log which runs of a home have died without a word: their process is gone, and nobody has told of it yet."""
    for note in dead_notes(home):
        end = how_it_ended(home, note.run_id)
        how = "its process is gone" if end == KILLED else end
        logger.warning("%s died: %s. `rlft resume %s` goes on with it", note.run_name, how, quote(note.run_name))


def check_writable(home: Home) -> None:
    """Raise StorageError if nothing can be written to the home."""
    if problem := _home_problem(home):
        raise problem


def check_start(config: Config, home: Home, summary: Path | None, *, stack: str | None) -> None:
    """Raise NotReadyError, which lists everything that keeps the run from starting, if there is anything.

    `summary` is the file that `--summary` names. Where a `stack` runs it, paths, packages, variables and devices are
    those of its machines: then only the places that this command itself writes to are checked.
    """
    problems = [problem for problem in (_target_problem(summary), _home_problem(home)) if problem]
    if stack is None:
        try:
            check_variables(config)
        except RlftError as missing:
            problems.append(missing)
        else:
            problems += find_problems(config, home.root)
    if problems:
        raise NotReadyError(problems)


def _target_problem(summary: Path | None) -> RlftError | None:
    """Return why the summary cannot be written, or `None`."""
    if summary is None:
        return None
    try:
        summary.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=summary.parent):
            pass
    except OSError as cause:
        place = f"--summary {summary}"
        return RlftError(f"nothing can be written there: {cause}", where=place, fix="name another file")
    return None


def _home_problem(home: Home) -> StorageError | None:
    """Return why runs cannot be stored in the home, or `None`, without making the folder."""
    place = next(folder for folder in (home.root, *home.root.parents) if folder.exists())
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return None
    fix = "set RLFT_HOME to a folder of yours"
    return StorageError("no folder can be made or written there", where=str(place), fix=fix)
