"""Databases of a home with few tables, made at once: those by which a complete one is known, and those of runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing

from mlops.home.databases import ZENML, Database
from mlops.home.folder import Home

TABLES = {
    "zenml": ("alembic_version", "server_settings", "flavor", "project", "stack", "user"),
    "mlflow": ("alembic_version", "experiments"),
}
ID = "0123456789abcdef0123456789abcdef"  # of the user, the stack and the project


def make_databases(home: Home, databases: Sequence[Database]) -> None:
    """Stand in for `stores._open`, which takes seconds."""
    for database in databases:
        make_database(home, database)


def make_database(home: Home, database: Database, rows: int = 1) -> None:
    """Make one of the two, with so many rows in each table that a complete one has."""
    file = database.file(home)
    file.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(file)) as connection:
        for table in TABLES[database.name]:
            columns = "version_num TEXT" if table == "alembic_version" else "id TEXT, name TEXT, created TEXT"
            values = ("0.98.0",) if table == "alembic_version" else (ID, "default", "2026")
            connection.execute(f'CREATE TABLE "{table}" ({columns})')
            places = ", ".join("?" * len(values))
            connection.executemany(f'INSERT INTO "{table}" VALUES ({places})', [values] * rows)
        if database is ZENML:
            connection.execute("CREATE TABLE artifact_version (uri TEXT, id TEXT)")
            connection.execute("CREATE TABLE step_run (id TEXT, cache_expires_at TEXT)")
            connection.execute("CREATE TABLE step_run_output_artifact (step_id TEXT, artifact_id TEXT)")
            connection.execute("CREATE TABLE pipeline_run (id TEXT, name TEXT, status TEXT)")
        connection.commit()
