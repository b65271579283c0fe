"""Entries of a home that are not what rlft, ZenML or MLflow would have put there, in sentences that say the way on.

A pipe would be waited for, a folder in a file's place ends in an error of Python, and a database that is made through a
link that leads nowhere would lie elsewhere. So they are looked for before anything is read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from mlops.home.databases import DATABASES
from mlops.home.folder import LOCK, REMOVING, SCHEDULES, Home
from rlft.errors import StorageError

# What is lost with it, and what is not.
_RUNS = "the summaries of the runs. Their curves are in MLflow, which has each summary, too; their artifacts in zenml/"
_ARTIFACTS = "the artifacts and ZenML's database. Weights of registered models are in mlflow-artifacts/"
_STORES = "zenml/local_stores"
_STORED = "artifacts of runs, or their seals. Summaries are in runs/, weights of registered models in mlflow-artifacts/"
_NOTHING = "nothing that would be missed"
_FOLDERS = {
    "runs": _RUNS,
    "zenml": _ARTIFACTS,
    _STORES: _ARTIFACTS,
    f"{_STORES}/default_zen_store": "ZenML's database. The artifacts lie beside it",
    "mlflow-artifacts": "the weights of registered models. Policies of the runs, and all else, are in zenml/",
    "checkpoints": "checkpoints of supervised stages that were cut off, which begin anew without them",
    "judges": "what judges have answered, which is asked and paid for again without it",
    "logs": "traces of errors that were told",
    SCHEDULES: "which schedules were applied, and what came of their runs. The runs themselves are in runs/",
    "scratch": _NOTHING,
    "serve-engine": _NOTHING,
}
_FILES = {
    REMOVING: "which removal of runs was cut short: what it had not come to stays in MLflow and on the disk",
    f"{REMOVING}.lock": _NOTHING,
    LOCK: _NOTHING,
    "aliases.lock": _NOTHING,
    ".gitignore": _NOTHING,
    "zenml/config.yaml": "ZenML's settings, which are made again from its database",
}
_OF_RUNS = {
    ".process.json": "whether the process of a run is alive",
    ".calls": "what the environment's code did when a process ended",
    ".missed.json": "what MLflow has missed of a run. All else of it is there",
    ".artifacts.json": "a table of a run's artifacts, which is needed only without ZenML's database",
    ".lock": _NOTHING,
    ".evaluation.json": "what an evaluation of models came to. MLflow has it, too",
    ".replay.json": "what a rescoring or a retraining came to. MLflow has it, too",
    ".json": "the summary of a run. MLflow has it, too, and its artifacts are in zenml/",
}


def check_entries(home: Home) -> None:
    """Raise StorageError if an entry is of another kind than it should be, or cannot be read."""
    for problem in find_odd(home):
        raise problem


def find_odd(home: Home) -> Iterator[StorageError]:
    """Yield an error for each entry that is of another kind than it should be, or that cannot be read.

    What is missing is none. Nothing is opened.
    """
    if (problem := _odd(home.root, is_folder=True)) is not None:
        fix = "move it away, or set RLFT_HOME to a folder of yours"
        yield StorageError(f"{problem}. It should be the folder of the runs", where=str(home.root), fix=fix)
        return
    for path, is_folder, lost in _expected(home):
        if not _is_below_odd(home, path) and (problem := _odd(path, is_folder=is_folder)) is not None:
            yield StorageError(
                f"{problem}. What should be there holds {lost}", where=str(path), fix=_way_on(path, problem)
            )


def _expected(home: Home) -> Iterator[tuple[Path, bool, str]]:
    """Yield paths of a home, whether each should be a folder, and what is lost with it."""
    for name, lost in _FOLDERS.items():
        yield home.root / name, True, lost
    for name in _names(home.root / _STORES):
        if name != "default_zen_store":
            for folder in (name, f"{name}/seals"):
                yield home.root / _STORES / folder, True, _STORED
    for database in DATABASES:
        yield database.file(home), False, f"{database.holds}. Nothing else is lost: {database.spares}"
    for name, lost in _FILES.items():
        yield home.root / name, False, lost
    for name in _names(home.root / "runs"):
        end = next((end for end in _OF_RUNS if name.endswith(end)), None)
        if end is not None:
            yield home.root / "runs" / name, False, _OF_RUNS[end]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:  # it is missing, or it was told of
        return []


def _is_below_odd(home: Home, path: Path) -> bool:
    """Return whether a folder on the way to a path is odd, which is told of it alone."""
    inner = path.parent.relative_to(home.root)
    return any(_odd(home.root / folder, is_folder=True) for folder in (inner, *inner.parents))


def _odd(path: Path, *, is_folder: bool) -> str | None:
    """Return what is wrong with an entry; `None` if nothing is, or if nothing is there."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "this is a link that leads nowhere" if path.is_symlink() else None
    except OSError as cause:
        if cause.errno == errno.ELOOP:
            return "this is a link that leads to itself"
        return f"this cannot be read by this user: {cause.strerror}"
    kinds = {"file": stat.S_ISREG, "folder": stat.S_ISDIR, "pipe": stat.S_ISFIFO, "socket": stat.S_ISSOCK}
    kind = next((name for name, fits in kinds.items() if fits(mode)), "device")
    if kind != (wanted := "folder" if is_folder else "file"):
        return f"this is a {kind}, not a {wanted}"
    if not os.access(path, os.R_OK | (os.X_OK if is_folder else 0)):
        return f"this {wanted} cannot be read by this user"
    return None


def _way_on(path: Path, problem: str) -> str:
    if "cannot be read" in problem:
        return (
            "make it readable for you (chmod, chown), or copy the home to a folder of yours and name that in RLFT_HOME"
        )
    if "link" in problem:
        back = "make it lead somewhere again, such as to a disk that is not mounted, or remove it"
    else:
        back = "move it away, and put back what was there if you have it"
    return f"{back}; `rlft doctor` says what is missing then"
