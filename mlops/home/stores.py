"""Makes the databases of ZenML and MLflow in a home.

Both are made in hundreds of statements, none of which can be repeated: a database whose making was cut short cannot be
opened again. So they are made in a folder aside, under a lock, and each is moved into place when it is complete. A kill
at any moment leaves a home that the next start completes.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mlops.home.databases import DATABASES, MLFLOW, ZENML, Database
from mlops.home.folder import LOCK, MAKING, Home, is_making
from mlops.home.locks import locked
from mlops.home.settings import are_whole, copy_settings, mend_settings
from rlft.errors import StorageError

_SECONDS = 600.0  # that another process may take to make them


def make_stores(home: Home) -> None:
    """Make the databases that are missing, and ZenML's settings. Who does that already is waited for.

    Call where ZenML may be imported, and after `check_home`. A home that has all is not written to, so that an archive
    can be read. Raises StorageError if they cannot be made.
    """
    if _unmade(home) or (not are_whole(home) and os.access(home.root / "zenml", os.W_OK)):
        from sqlalchemy.exc import OperationalError

        try:
            with _making(home):
                _make(home)
        except OperationalError as cause:
            raise _unmakable(home, cause.orig) from cause  # SQLAlchemy adds the statement and its rows
    copy_settings(home)


@contextmanager
def _making(home: Home) -> Iterator[None]:
    """Hold the lock under which databases and settings are made. Raises StorageError if they cannot be made."""

    def refused(holder: str) -> StorageError:
        what = f"{holder} has been making the databases for {_SECONDS / 60:.0f} minutes"
        return StorageError(what, where=str(home.root), fix="end it, then start again")

    try:
        with locked(home.root / LOCK, seconds=_SECONDS, refused=refused):
            yield
    except (OSError, sqlite3.Error) as cause:
        raise _unmakable(home, cause) from cause


def _unmakable(home: Home, reason: BaseException | None) -> StorageError:
    return StorageError(
        f"the databases of the runs cannot be made: {reason}",
        where=str(home.root),
        fix="make room on the disk, or set RLFT_HOME to a folder that you can write to; then start again",
    )


def _unmade(home: Home) -> list[Database]:
    return [database for database in DATABASES if not database.file(home).is_file()]


def _make(home: Home) -> None:
    for left in home.root.glob(f"{MAKING}*"):
        if is_making(left):  # whoever made it was killed: this process has the lock
            shutil.rmtree(left)
    if unmade := _unmade(home):
        aside = Home(home.root / f"{MAKING}{os.getpid()}")
        aside.root.mkdir()
        _open(aside, unmade)
        for database in unmade:
            database.file(home).parent.mkdir(parents=True, exist_ok=True)
            database.file(aside).rename(database.file(home))
        shutil.rmtree(aside.root)
    mend_settings(home)


def _open(aside: Home, databases: Sequence[Database]) -> None:
    """Open databases in a folder aside, which makes them, and close them again."""
    if ZENML in databases:
        with _zenml_in(aside):
            from zenml.client import Client
            from zenml.config.global_config import GlobalConfiguration
            from zenml.zen_stores.sql_zen_store import SqlZenStore

            assert Client().active_stack_model
            store = GlobalConfiguration().zen_store
            assert isinstance(store, SqlZenStore)
            store.engine.dispose()
    if MLFLOW in databases:
        from mlflow import MlflowClient

        client = MlflowClient(aside.tracking_uri)
        client.search_experiments(max_results=1)
        client._tracking_client.store._dispose_engine()


@contextmanager
def _zenml_in(aside: Home) -> Iterator[None]:
    """Let ZenML work in a folder aside, and forget it afterwards."""
    folder = aside.root / "zenml"
    paths = {"ZENML_CONFIG_PATH": str(folder), "ZENML_LOCAL_STORES_PATH": str(folder / "local_stores")}
    before = {name: os.environ[name] for name in paths}
    folder.mkdir()
    os.environ.update(paths)
    _forget()
    try:
        yield
    finally:
        os.environ.update(before)
        _forget()


def _forget() -> None:
    """Make ZenML read its settings anew, and open the database that they name."""
    from zenml.client import Client
    from zenml.config.global_config import GlobalConfiguration

    GlobalConfiguration._reset_instance()
    Client._reset_instance()
