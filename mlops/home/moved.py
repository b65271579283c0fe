"""Rewrites the paths in a home that was moved or copied, since ZenML and MLflow store absolute ones.

ZenML's `config.yaml` says where the databases are, so it tells where the home was. Both databases are changed in one
transaction and `config.yaml` after it: cut short anywhere, the next command does the rest.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from mlops.home.databases import DATABASES, ZENML
from mlops.home.folder import BACKUP, LOCK, Home
from mlops.home.locks import locked
from mlops.home.processes import living_notes
from mlops.home.settings import read_settings, settings_file
from rlft.errors import StorageError
from rlft.files import write_file

_SECONDS = 600.0  # that another process may take to rewrite them
# (database, table, column) of what is read as a path. Texts that tell of the past, such as errors, keep the old place.
_PATHS = (
    ("zenml", "artifact_version", "uri"),
    ("zenml", "artifact_visualization", "uri"),
    ("zenml", "logs", "uri"),
    ("mlflow", "experiments", "artifact_location"),
    ("mlflow", "runs", "artifact_uri"),
    ("mlflow", "logged_models", "artifact_location"),
    ("mlflow", "model_versions", "source"),
    ("mlflow", "model_versions", "storage_location"),
    ("mlflow", "trace_tags", "value"),
)


def former_place(home: Home) -> Path | None:
    """Return where the home was when it was last used; `None` if it is there still, or nothing is in it yet."""
    url = (read_settings(home).get("store") or {}).get("url") or ""
    scheme, end = "sqlite:///", f"/{ZENML.path}"
    if not (url.startswith(scheme) and url.endswith(end)):
        return None
    place = Path(url.removeprefix(scheme).removesuffix(end))
    return None if place == home.root else place


def settle(home: Home) -> Path | None:
    """Rewrite the paths of a home that was moved, and return where it was; `None` if there is nothing to do.

    What both databases held before stays in `before-move/`. Raises StorageError if a run is going on in it, or if it
    cannot be written to. Call before ZenML is asked anything.
    """
    if former_place(home) is None:
        return None
    if not os.access(settings_file(home), os.W_OK) or not os.access(home.root, os.W_OK):
        raise StorageError(
            f"this folder was moved or copied here from {former_place(home)}, and its paths cannot be rewritten",
            where=str(home.root),
            fix="copy it to a folder of yours, and name that one in RLFT_HOME",
        )
    with locked(home.root / LOCK, seconds=_SECONDS, refused=lambda holder: _busy(home, holder)):
        was = former_place(home)
        if was is not None:  # else another process has done it meanwhile
            _refuse_while_used(home)
            try:
                _back_up(home)
                _rewrite(home, was)
                _write_config(home, was)
            except (OSError, sqlite3.Error) as cause:
                raise StorageError(
                    f"this folder was moved or copied here from {was}, and its paths cannot be rewritten: {cause}",
                    where=str(home.root),
                    fix="mend what is wrong with the disk, then start again",
                ) from cause
    return was


def _busy(home: Home, holder: str) -> StorageError:
    what = f"{holder} has been rewriting the paths of this folder for {_SECONDS / 60:.0f} minutes"
    return StorageError(what, where=str(home.root), fix="end it, then start again")


def _refuse_while_used(home: Home) -> None:
    if alive := living_notes(home):
        names = ", ".join(f"{note.run_name} (process {note.pid})" for note in alive)
        raise StorageError(
            f"this folder was moved or copied while {names} went on",
            where=str(home.root),
            fix="wait for it to end, or end it; a copy must be made after that",
        )


def _back_up(home: Home) -> None:
    """Copy both databases and ZenML's settings; the settings last, as the sign that the copy is complete."""
    folder, config = home.root / BACKUP, (settings_file(home)).read_text(encoding="utf-8")
    sign = folder / "config.yaml"
    if sign.is_file() and sign.read_text(encoding="utf-8") == config:
        return  # an attempt that was cut short made it, and may have rewritten the databases since
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for path in _databases(home).values():
        here, there = sqlite3.connect(_address(path), uri=True), sqlite3.connect(folder / path.name)
        with closing(here), closing(there):
            here.backup(there)
    write_file(sign, config)


def _rewrite(home: Home, was: Path) -> None:
    """Rewrite the paths in both databases in one transaction."""
    (first, main), *others = _databases(home).items()
    schemas = {first: "main", **{name: name for name, _ in others}}
    with closing(sqlite3.connect(_address(main), uri=True, isolation_level=None)) as connection:
        for name, path in others:
            connection.execute(f"ATTACH DATABASE ? AS {name}", (_address(path),))
        connection.execute("BEGIN IMMEDIATE")
        for name, table, column in _PATHS:
            if name in schemas and _has_table(connection, schemas[name], table):
                for old, new in ((f"{was}/", f"{home.root}/"), (f"{was.as_uri()}/", f"{home.root.as_uri()}/")):
                    _replace(connection, f"{schemas[name]}.{table}", column, old, new)
        connection.execute("COMMIT")


def _has_table(connection: sqlite3.Connection, schema: str, table: str) -> bool:
    """Return whether there is such a table: a database whose making was cut short may lack it."""
    found = connection.execute(f"SELECT 1 FROM {schema}.sqlite_master WHERE type = 'table' AND name = ?", (table,))
    return found.fetchone() is not None


def _replace(connection: sqlite3.Connection, table: str, column: str, old: str, new: str) -> None:
    """Replace `old` by `new` where a text begins with it. One that begins with `new` stays: `new` may lie in `old`."""
    begins = f"substr({column}, 1, ?)"
    connection.execute(
        f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE {begins} = ? AND {begins} != ?",
        (new, len(old) + 1, len(old), old, len(new), new),
    )


def _write_config(home: Home, was: Path) -> None:
    write_file(settings_file(home), yaml.safe_dump(_moved(read_settings(home), f"{was}/", f"{home.root}/")))


def _moved(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: _moved(each, old, new) for key, each in value.items()}
    return value.replace(old, new) if isinstance(value, str) else value


def _databases(home: Home) -> dict[str, Path]:
    """Return the paths of the databases that exist, by their names."""
    return {database.name: file for database in DATABASES if (file := database.file(home)).is_file()}


def _address(path: Path) -> str:
    return f"{path.as_uri()}?mode=rw"  # never creates a database
