"""What MLflow's database says about a run of the home: its version in the registry, its GPU hours, and its sweep."""

from __future__ import annotations

import dataclasses
import sqlite3

from mlops.ids import PARENT_TAG, SWEEP_TAG
from mlops.registry.changes import find_moves, read_changes, waits
from mlops.registry.names import CHAMPION, HASH_TAG, ZENML_TAG, plain_tags
from mlops.runs.listed import ListedRun
from mlops.summary.result import EARLIER_GPU_HOURS, GPU_HOURS
from mlops.tracking.root_tags import OLD_ROOT_RUN_TAG, ROOT_RUN_TAG

_ROOT_TAGS = (ROOT_RUN_TAG, OLD_ROOT_RUN_TAG)
_HAS_ROOT = "SELECT 1 FROM tags WHERE run_uuid = ? AND key IN (?, ?)"
_TAGS_OF_VERSION = "SELECT key, value FROM model_version_tags WHERE name = ? AND version = ?"
_TAGS_OF_MODEL = "SELECT key, value FROM registered_model_tags WHERE name = ?"


def with_mlflow(database: sqlite3.Connection, run: ListedRun) -> ListedRun:
    """Add what MLflow's database says: the registered version with its aliases, and the hours of GPUs."""
    run = dataclasses.replace(run, mlflow_runs=_mlflow_runs(database, run))
    marks = ", ".join("?" * len(run.mlflow_runs))
    found = database.execute(
        f"SELECT name, version FROM model_versions WHERE run_id IN ({marks}) ORDER BY version DESC", run.mlflow_runs
    ).fetchall()
    hours = database.execute(
        f"SELECT SUM(value) FROM latest_metrics WHERE key IN (?, ?) AND run_uuid IN ({marks})",
        (GPU_HOURS, EARLIER_GPU_HOURS, *run.mlflow_runs),
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
    known = dataclasses.replace(
        run, version=version, aliases=unique, named=named, marks=said, doubt=_doubt(database, run)
    )
    return dataclasses.replace(known, gpu_hours=hours, sweep=sweep)


def _doubt(database: sqlite3.Connection, run: ListedRun) -> str:
    """Return why a version that has an alias is, or may be, of a run that left neither a summary nor a run in MLflow.

    A version of rlft's says in its record which run has made it, or the run in MLflow that it is from does.
    """
    if run.mlflow_runs or run.summary is not None or run.kind != "training":
        return ""
    ids, unknown = {attempt.id for attempt in run.attempts}, list[str]()
    named = (
        "SELECT DISTINCT version.name, version.version, version.run_id FROM model_versions AS version "
        "JOIN registered_model_aliases AS alias ON alias.name = version.name AND alias.version = version.version"
    )
    for name, number, mlflow_run in database.execute(named).fetchall():
        of_model = dict(database.execute(_TAGS_OF_MODEL, (name,)))
        tags = plain_tags(dict(database.execute(_TAGS_OF_VERSION, (name, number))), of_model)
        if tags.get(ZENML_TAG) in ids:
            return f"{name} {number} is of this run, and has an alias"
        has_origin = ZENML_TAG in tags or database.execute(_HAS_ROOT, (mlflow_run, *_ROOT_TAGS)).fetchone()
        if HASH_TAG in tags and not has_origin:
            unknown.append(f"{name} {number}")
    if not unknown:
        return ""
    said = f"of which run {', '.join(unknown)} is made is not known"
    return f"its summary cannot be read, MLflow has no run of it, and {said}"


def _mlflow_runs(database: sqlite3.Connection, run: ListedRun) -> tuple[str, ...]:
    """Return the ids of a run in MLflow: those that its summaries name, and those whose tags name one of its attempts.

    A summary may be damaged or gone. A run of an evaluation's cell has a tag that begins with the evaluation's.
    """
    found = list(run.mlflow_runs)
    for attempt in run.attempts:
        rows = database.execute(
            "SELECT run_uuid FROM tags WHERE key IN (?, ?) AND (value = ? OR value LIKE ? || '/%')",
            (*_ROOT_TAGS, attempt.id, attempt.id),
        )
        found += [one for (one,) in rows]
    return tuple(dict.fromkeys(found))


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
    of_model = dict(database.execute(_TAGS_OF_MODEL, (name,)))
    own = plain_tags(dict(database.execute(_TAGS_OF_VERSION, version)), of_model)
    [champion] = database.execute(
        "SELECT max(version) FROM registered_model_aliases WHERE name = ? AND alias = ?", (name, CHAMPION)
    ).fetchone()
    now = None if champion is None else str(champion)
    moves = find_moves(read_changes(plain_tags(of_model)), now)
    was = ("was champion",) if number != now and any(move.to == number for move in moves) else ()
    return (*was, *(("waits for approval",) if waits(own, number, moves) else ()))
