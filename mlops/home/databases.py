"""The two databases of a home, ZenML's and MLflow's: what keeps them from being used, and making them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from mlops.home.folder import Home
from mlops.home.processes import locked
from rlft.errors import StorageError
from rlft.files import write_file

_SECONDS = 600.0  # that another process may take to make them


def check_home(home: Home) -> None:
    """Raise StorageError for a home that was moved here, or whose database is gone."""
    try:
        made_in = str(json.loads(home.note.read_text(encoding="utf-8"))["path"])
    except FileNotFoundError:  # a new one
        return
    except (OSError, ValueError, TypeError, KeyError) as cause:
        raise StorageError(f"this cannot be read: {cause}", where=str(home.note), fix="remove it") from cause
    if made_in != str(home.root):
        raise StorageError(
            f"this folder was moved or copied here from {made_in}, whose paths are in its databases",
            where=str(home.root),
            fix="move it back to where it was made, or set RLFT_HOME to a new folder",
        )
    for file in home.databases:
        if not file.is_file():
            fix = f"put a copy of the whole folder back, or delete {home.root} and run again"
            raise StorageError(f"{file} is gone", where=str(home.root), fix=fix)


def make_stores(home: Home) -> None:
    """Make the databases of a new home. Who does that already is waited for.

    Call after `use_own_setup` and `check_home`. A note in the home says that they are whole: what a process has begun
    to make that was killed is made anew. Raises StorageError if they cannot be made.
    """

    def refused() -> StorageError:
        what = f"another process has been making the databases for {_SECONDS / 60:.0f} minutes"
        return StorageError(what, where=str(home.root), fix="end it, then start again")

    if home.note.is_file():
        return
    from sqlalchemy.exc import OperationalError

    try:
        with locked(home.root / "stores.lock", seconds=_SECONDS, refused=refused):
            if not home.note.is_file():
                _make(home)
                write_file(home.note, json.dumps({"path": str(home.root)}))
    except (OSError, OperationalError) as cause:
        raise StorageError(
            f"the databases of the runs cannot be made: {getattr(cause, 'orig', cause)}",
            where=str(home.root),
            fix="make room on the disk, or set RLFT_HOME to a folder that you can write to; then start again",
        ) from cause


def _make(home: Home) -> None:
    if not any((home.root / "runs").glob("*/run.json")):
        for file in home.databases:
            file.unlink(missing_ok=True)
    from mlflow import MlflowClient
    from zenml.client import Client

    assert Client().active_stack_model
    # Else a query that an interrupt leaves half read keeps ZenML from writing down that the run has failed: for 60 s.
    with closing(sqlite3.connect(home.databases[0])) as database:
        database.execute("PRAGMA journal_mode=WAL")
    MlflowClient(home.tracking_uri).search_experiments(max_results=1)
