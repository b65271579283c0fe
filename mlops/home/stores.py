"""Makes the databases of ZenML and MLflow in a home, under a lock: both take hundreds of statements."""

from __future__ import annotations

import json

from mlops.home.databases import DATABASES
from mlops.home.faults import FORMAT
from mlops.home.folder import LOCK, Home
from mlops.home.locks import locked
from rlft.errors import StorageError
from rlft.files import write_file

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
