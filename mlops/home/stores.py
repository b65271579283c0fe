"""Makes the databases of ZenML and MLflow in a home, and looks into them without importing either.

Both are made in hundreds of statements, none of which can be repeated: a database whose making was cut short cannot be
opened again. So what is being made is noted first, and what was noted and never finished is made anew. Nothing else is
ever removed: before the note is gone no run begins.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from mlops.home.folder import LOCK, Home
from rlft.errors import StorageError
from rlft.files import write_file

DATABASE = "zenml/local_stores/default_zen_store/zenml.db"
RESTORE = "put a copy of it in its place, or set RLFT_HOME to another folder and start anew there"
_ENDED = {"completed", "failed", "cached", "stopped"}  # ZenML's states of a run that does not go on
_NOTE = "unfinished.json"
_FILES = ("zenml/config.yaml", "zenml/local_stores/default_zen_store", "mlflow.db")
_JOURNALS = ("-journal", "-wal", "-shm")


def make_stores(home: Home) -> None:
    """Make the databases that are missing. Another process that makes them is waited for.

    Call once `home` is ZenML's set-up. A home that has both is not written to, so that an archive can be read. Raises
    StorageError if they cannot be made, or if it cannot be known which of them are unfinished.
    """
    # The files are looked for before the note: who makes them writes the note before the first and removes it after
    # the last, so files that are all there without a note after them are complete.
    if not _missing(home) and not (home.root / _NOTE).exists():
        return
    from sqlalchemy.exc import OperationalError

    try:
        _make(home)
    except (OSError, OperationalError) as cause:
        reason = cause.orig if isinstance(cause, OperationalError) else cause  # SQLAlchemy's adds statement and rows
        raise StorageError(
            f"the databases of the runs cannot be made: {reason}",
            where=str(home.root),
            fix="make room on the disk, or set RLFT_HOME to a folder that you can write to; then start again",
        ) from cause


def all_runs_ended(home: Home) -> bool:
    """Return whether ZenML's database says of every run that it has ended; `False` also if it cannot be read quickly.

    ZenML itself takes seconds to import; whoever must know more asks it.
    """
    try:
        with closing(sqlite3.connect(f"file:{home.root / DATABASE}?mode=ro", uri=True, timeout=1)) as database:
            found = {status for (status,) in database.execute("SELECT DISTINCT status FROM pipeline_run")}
    except sqlite3.Error:
        return False
    return found <= _ENDED


def damaged_databases(home: Home) -> dict[Path, str]:
    """Return the databases of the home that cannot be read as such, and why. One that is merely locked is left out."""
    found = {}
    for file in (home.root / DATABASE, home.root / "mlflow.db"):
        try:
            if file.is_file():
                with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=1)) as database:
                    database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            continue
        except sqlite3.DatabaseError as cause:
            found[file] = str(cause)
    return found


def _missing(home: Home) -> list[str]:
    return [name for name in _FILES if not (home.root / name).exists()]


def _make(home: Home) -> None:
    """Under a lock, remove what was noted and never finished, and make what is missing."""
    note = home.root / _NOTE
    with (home.root / LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if note.is_file():
            for name in _read(note):
                _remove(home.root / name)
        if missing := _missing(home):
            write_file(note, json.dumps(missing))
            _open(home)
        note.unlink(missing_ok=True)


def _read(note: Path) -> list[str]:
    """Return the names in a note. Raises StorageError for one that a loss of power left empty: it could mean any."""
    try:
        names = json.loads(note.read_text(encoding="utf-8"))
    except ValueError:
        names = None
    if not isinstance(names, list) or any(name not in _FILES for name in names):
        raise StorageError(
            "this note does not say which databases are unfinished",
            where=str(note),
            fix="remove this file; if there are no runs here yet, remove mlflow.db and zenml/ beside it as well",
        )
    return names


def _open(home: Home) -> None:
    """Open both databases, which makes them."""
    from mlflow import MlflowClient
    from zenml.client import Client
    from zenml.config.global_config import GlobalConfiguration

    assert Client().active_stack_model
    GlobalConfiguration().analytics_opt_in = False  # stored as well, for ZenML's own commands
    MlflowClient(home.tracking_uri).search_experiments(max_results=1)


def _remove(path: Path) -> None:
    """Remove a file with its journals, or a folder; never what merely begins with its name."""
    if path.is_dir():
        shutil.rmtree(path)
        return
    for end in ("", *_JOURNALS):
        path.with_name(path.name + end).unlink(missing_ok=True)
