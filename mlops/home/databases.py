"""The two databases of a home, ZenML's and MLflow's: where they lie, what keeps them from being used, making them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlops.home.folder import LOCK, Home
from mlops.home.processes import locked
from rlft.errors import StorageError
from rlft.files import write_file


@dataclass(frozen=True, slots=True)
class Database:
    """A database of a home by its `path` there; `beside` is a pattern of what lies there once there were runs."""

    path: str
    beside: str

    def file(self, home: Home) -> Path:
        """Return its file in a home."""
        return home.root / self.path


# Which runs there are and which artifacts are whose, for `rlft resume` and the cache; curves, traces and the registry.
ZENML = Database("zenml/local_stores/default_zen_store/zenml.db", "zenml/local_stores/[0-9a-f]*-*-*-*-*")
MLFLOW = Database("mlflow.db", "mlflow-artifacts/*")
DATABASES = (ZENML, MLFLOW)
FORMAT = 1
_DAMAGED = re.compile("malformed|not a database|no such (?:table|column)")


def check_home(home: Home, databases: Sequence[Database] = DATABASES) -> None:
    """Raise StorageError for a home that was moved here or is of a newer rlft, or whose database is gone or is none."""
    try:
        noted = json.loads(home.note.read_text(encoding="utf-8"))
        made_in, version = str(noted["path"]), int(noted["format"])
    except FileNotFoundError:  # a new one, or one from before there were notes
        made_in, version = str(home.root), FORMAT
    except (OSError, ValueError, TypeError, KeyError) as cause:
        raise StorageError(f"this cannot be read: {cause}", where=str(home.note), fix="remove it") from cause
    if version > FORMAT:
        raise StorageError("this folder was made by a newer rlft", where=str(home.root), fix="update rlft")
    if made_in != str(home.root):
        raise StorageError(
            f"this folder was moved or copied here from {made_in}, whose paths are in its databases",
            where=str(home.root),
            fix="move it back to where it was made, or set RLFT_HOME to a new folder",
        )
    for database in databases:
        if why := _why(home, database):
            raise _error(home, f"{database.file(home)} {why}")


def explained(home: Home, error: BaseException) -> StorageError | None:
    """Return what an unexpected error says of the home's databases; `None` if they have no part in it."""
    try:
        check_home(home)
    except StorageError as fault:
        return fault
    said = str(error)
    if "database is locked" in said:
        fix = "wait for it or end it; what was begun goes on with `rlft resume`"
        return StorageError("a process has kept a database of the runs locked for long", where=str(home.root), fix=fix)
    if _DAMAGED.search(said):
        files = " or ".join(str(database.file(home)) for database in DATABASES)
        return _error(home, f"{files} is damaged, or of another version: {said.splitlines()[0]}")
    return None


def _why(home: Home, database: Database) -> str | None:
    """Return what is wrong with a database of a home that has had runs."""
    if not any(home.root.glob(database.beside)):
        return None
    try:
        with database.file(home).open("rb") as file:
            is_one = file.read(16) == b"SQLite format 3\0"
    except FileNotFoundError:
        return "is gone"
    except OSError as cause:
        return f"cannot be read: {cause}"
    return None if is_one else "is damaged: it is no database"


def _error(home: Home, what: str) -> StorageError:
    return StorageError(
        what,
        where=str(home.root),
        fix=f"put a copy of the whole folder back if you have one; else save what you need of it, delete {home.root}, "
        "and run again",
    )


_SECONDS = 600.0  # that another process may take to make them


def make_stores(home: Home) -> None:
    """Make the databases of a new home. Who does that already is waited for.

    Call after `use_own_setup` and `check_home`. A note in the home says that they are whole: what a process has begun
    to make that was killed is made anew. Raises StorageError if they cannot be made.
    """

    def refused(holder: str) -> StorageError:
        what = f"{holder} has been making the databases for {_SECONDS / 60:.0f} minutes"
        return StorageError(what, where=str(home.root), fix="end it, then start again")

    if home.note.is_file():
        return
    from sqlalchemy.exc import OperationalError

    try:
        with locked(home.root / LOCK, seconds=_SECONDS, refused=refused):
            if not home.note.is_file():
                _make(home)
                write_file(home.note, json.dumps({"format": FORMAT, "path": str(home.root)}))
    except (OSError, OperationalError) as cause:
        raise StorageError(
            f"the databases of the runs cannot be made: {getattr(cause, 'orig', cause)}",
            where=str(home.root),
            fix="make room on the disk, or set RLFT_HOME to a folder that you can write to; then start again",
        ) from cause


def _make(home: Home) -> None:
    for database in DATABASES:
        if not any(home.root.glob(database.beside)):  # no run was there
            database.file(home).unlink(missing_ok=True)
    from mlflow import MlflowClient
    from zenml.client import Client

    assert Client().active_stack_model
    MlflowClient(home.tracking_uri).search_experiments(max_results=1)
