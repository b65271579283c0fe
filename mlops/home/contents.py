"""Tells a database that something else than SQLite has changed, by a note of what it held at the end of a run.

SQLite finds pages that are no longer pages, and takes any content of a row for what was written. But it counts what it
writes, in the file's header: bytes that differ at the same count are damage.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from mlops.home.databases import Database
from mlops.home.folder import Home
from rlft.files import file_hash, write_file

_COUNTS = slice(24, 28)  # of the header: how often the database was written to
_IS_LOG = slice(18, 20)  # of the header: both bytes are 2 where changes go to another file first, and are not counted


def note_content(home: Home, database: Database, connection: sqlite3.Connection) -> None:
    """Note the content of a database, to which `connection` lets nobody write meanwhile.

    Raises OSError or sqlite3.Error.
    """
    file = database.file(home)
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # only reading takes the lock
    try:
        write_file(_note(home, database), json.dumps({"written": _written(file), "sha256": file_hash(file)}))
    finally:
        connection.execute("ROLLBACK")


def has_changed_unwritten(home: Home, database: Database) -> bool:
    """Return whether a database holds other bytes than were noted although it was not written to since."""
    file = database.file(home)
    try:
        noted = json.loads(_note(home, database).read_text(encoding="utf-8"))
        written = _written(file)
        # Looked at twice: another process may write while the bytes are read.
        return (
            written is not None
            and noted["written"] == written
            and file_hash(file) != noted["sha256"]
            and _written(file) == written
            and not file.with_name(f"{file.name}-journal").exists()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False  # no note, or none that can be read


def forget_content(home: Home, database: Database) -> None:
    """Remove the note of a database that is replaced by another one."""
    _note(home, database).unlink(missing_ok=True)


def _note(home: Home, database: Database) -> Path:
    return home.root / "backups" / f"{database.name}.json"


def _written(file: Path) -> str | None:
    with file.open("rb") as opened:
        header = opened.read(32)
    return None if header[_IS_LOG] == b"\2\2" else header[_COUNTS].hex()
