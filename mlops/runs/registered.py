"""What MLflow's database says about a run of the home: its version in the registry, its GPU hours, and its sweep."""

from __future__ import annotations

import dataclasses
import sqlite3
from datetime import UTC, datetime

from mlops.ids import PARENT_TAG, SWEEP_TAG
from mlops.registry.changes import read_changes
from mlops.registry.names import CHAMPION, plain_tags
from mlops.registry.spells import find_moves
from mlops.registry.verdicts import waits
from mlops.runs.listed import ListedRun


def with_mlflow(database: sqlite3.Connection, run: ListedRun) -> ListedRun:
    """Add what MLflow's database says: the registered version with its aliases, and the hours of GPUs."""
    marks = ", ".join("?" * len(run.mlflow_runs))
    found = database.execute(
        f"SELECT name, version FROM model_versions WHERE run_id IN ({marks}) ORDER BY version DESC", run.mlflow_runs
    ).fetchall()
    hours = database.execute(
        f"SELECT SUM(value) FROM latest_metrics WHERE key = 'perf/gpu_hours' AND run_uuid IN ({marks})", run.mlflow_runs
    ).fetchone()[0]
    aliases = [
        (alias, f"{name} {version} is {alias}")
        for alias, version, name in database.execute(
            "SELECT alias, version, name FROM registered_model_aliases ORDER BY alias"
        )
        if (name, version) in found
    ]
    version = (found[0][0], str(found[0][1])) if found else None
    unique, named = tuple(dict.fromkeys(alias for alias, _ in aliases)), tuple(sentence for _, sentence in aliases)
    said, sweep = _marks(database, version) if version else (), _sweep(database, run)
    return dataclasses.replace(
        run, gpu_hours=hours, version=version, aliases=unique, named=named, marks=said, sweep=sweep
    )


def _sweep(database: sqlite3.Connection, run: ListedRun) -> str:
    """Return the name of the sweep whose run in MLflow the run is nested in; empty if there is none."""
    marks = ", ".join("?" * len(run.mlflow_runs))
    found = database.execute(
        "SELECT above.name FROM tags AS nested JOIN runs AS above ON above.run_uuid = nested.value "
        "JOIN tags AS sweep ON sweep.run_uuid = above.run_uuid AND sweep.key = ? "
        f"WHERE nested.key = '{PARENT_TAG}' AND nested.run_uuid IN ({marks})",
        (SWEEP_TAG, *run.mlflow_runs),
    ).fetchone()
    return found[0] if found else ""


def _marks(database: sqlite3.Connection, version: tuple[str, str]) -> tuple[str, ...]:
    """Return what the registry's notes say about a version beside its aliases."""
    name, number = version
    of_model = database.execute("SELECT key, value FROM registered_model_tags WHERE name = ?", (name,))
    noted = database.execute("SELECT key, value FROM model_version_tags WHERE name = ? AND version = ?", version)
    own = plain_tags(dict(noted))
    [champion] = database.execute(
        "SELECT max(version) FROM registered_model_aliases WHERE name = ? AND alias = ?", (name, CHAMPION)
    ).fetchone()
    now = None if champion is None else str(champion)
    moves = find_moves(read_changes(plain_tags(dict(of_model))), now, datetime.now(UTC))
    was = ("was champion",) if number != now and any(move.to == number for move in moves) else ()
    return (*was, *(("waits for approval",) if waits(own, number, moves) else ()))
