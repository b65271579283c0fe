"""Saves what can be read of a damaged SQLite database, row by row, into a new one."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

# The order of making: an index or trigger needs its table.
_SCHEMA = "SELECT type, name, sql FROM sqlite_master WHERE sql NOT NULL AND name NOT LIKE 'sqlite_%'"
_ORDER = ("table", "view", "index", "trigger")


def salvage(damaged: Path, target: Path) -> bool:
    """Copy what can be read into a new database at `target`; returns whether that is everything.

    A damaged part of a table hides the rows behind it, so a table is read from both ends. Rows that refer to lost ones
    go with them. Nothing is made if not even the names of the tables can be read. `damaged` is read alone, and may be
    changed: give a copy.
    """
    _fill_up(damaged)
    source = sqlite3.connect(f"{damaged.as_uri()}?mode=ro&immutable=1", uri=True)
    made = sqlite3.connect(target, isolation_level=None)
    with closing(source), closing(made):
        try:
            schema = sorted(source.execute(_SCHEMA), key=lambda row: _ORDER.index(row[0]))
        except (sqlite3.Error, ValueError):
            target.unlink(missing_ok=True)
            return False
        made.execute("PRAGMA synchronous = OFF")
        made.execute("BEGIN")
        worked = [_make(made, sql) for kind, _, sql in schema if kind == "table"]
        worked += [_copy(source, made, name) for kind, name, _ in schema if kind == "table"]
        worked += [_make(made, sql) for kind, _, sql in schema if kind != "table"]
        if not all(worked):
            _drop_orphans(made)
        made.execute("COMMIT")
    return all(worked)


def _fill_up(damaged: Path) -> None:
    """Give a file that was cut short its length again: SQLite reads nothing of one that is shorter than it says."""
    with damaged.open("r+b") as file:
        header = file.read(32)
        page = int.from_bytes(header[16:18], "big")
        length = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
        if length > damaged.stat().st_size:
            file.truncate(length)  # a hole, which takes no room


def _make(made: sqlite3.Connection, sql: str) -> bool:
    try:
        made.execute(sql)
    except sqlite3.Error:  # a statement that is damaged itself, or whose table could not be made
        return False
    return True


def _copy(source: sqlite3.Connection, made: sqlite3.Connection, table: str) -> bool:
    """Copy the rows of a table; returns whether all could be read."""
    try:
        # Without generated columns, which `SELECT *` returns and which cannot be written.
        columns = [f'"{name}"' for _, name, *_ in source.execute(f'PRAGMA table_info("{table}")')]
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        insert = f'INSERT OR IGNORE INTO "{table}" ({names}) VALUES ({marks})'
        made.execute(f'DELETE FROM "{table}"')
    except sqlite3.Error:
        return False
    for order in ("ASC", "DESC"):
        with suppress(sqlite3.Error):  # the damaged part begins here: what lies behind it is read from the other end
            for row in source.execute(f'SELECT {names} FROM "{table}" ORDER BY rowid {order}'):
                made.execute(insert, row)
            return order == "ASC" and _has_all(source, made, table)
    return False


def _has_all(source: sqlite3.Connection, made: sqlite3.Connection, table: str) -> bool:
    """Return whether as many rows were copied as an index knows.

    A damaged page may hold fewer than it did and look whole.
    """
    [known] = source.execute(f'SELECT count(*) FROM "{table}"').fetchone()  # by the smallest index, if there is one
    [copied] = made.execute(f'SELECT count(*) FROM "{table}" NOT INDEXED').fetchone()
    return copied >= known


def _drop_orphans(made: sqlite3.Connection) -> None:
    """Remove rows that refer to rows which are not there, until there are none."""
    while orphans := {(table, row) for table, row, *_ in made.execute("PRAGMA foreign_key_check") if row is not None}:
        for table, row in orphans:
            made.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (row,))
