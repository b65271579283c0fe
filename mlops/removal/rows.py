"""Removes what a note names from the databases of ZenML and MLflow; all of it can be done twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime

from mlops.home.databases import MLFLOW, ZENML, opened
from mlops.home.folder import Home
from mlops.ids import AS_STORED, MADE_AGAIN, PARENT_TAG, RUN_TAG, SWEEP_TAG
from mlops.removal.note import Note
from mlops.removal.plan import own_artifacts, places, unregistered_models, unregistered_runs, within

_TRACES_AT_ONCE = 100


def hide_from_cache(home: Home, keys: Sequence[str]) -> Note:
    """Keep ZenML from giving results of these attempts to a run that looks for them from now on.

    What has expired stays as it is. The note, which is in the home, says how it was before.
    """
    now = datetime.now(UTC).strftime(AS_STORED)
    note = Note([], "", [], hidden_at=now)
    with opened(ZENML.file(home), "rw") as database:
        database.execute("BEGIN IMMEDIATE")
        for key in keys:
            note.hidden |= database.execute(_GIVEN, (key, now)).fetchall()
        note.write(home)
        hidden = [(now, step) for step in note.hidden]
        database.executemany("UPDATE step_run SET cache_expires_at = ? WHERE id = ?", hidden)
        database.execute("COMMIT")
    return note


_GIVEN = """
SELECT id, cache_expires_at FROM step_run
WHERE pipeline_run_id = ? AND (cache_expires_at IS NULL OR cache_expires_at > ?)
"""


def give_back(home: Home, note: Note) -> None:
    """Let the cache give again what is left of what a removal has hidden; marks that came since stay."""
    hidden = [(before, step, note.hidden_at) for step, before in note.hidden.items()]
    with opened(ZENML.file(home), "rw") as database:
        database.execute("BEGIN IMMEDIATE")
        database.executemany("UPDATE step_run SET cache_expires_at = ? WHERE id = ? AND cache_expires_at = ?", hidden)
        database.execute("COMMIT")


def remove_from_zenml(home: Home, note: Note) -> None:
    """Remove the attempts with all that only they have, in one transaction; their places are noted before it ends."""
    with opened(ZENML.file(home), "rw") as database:
        database.execute("BEGIN IMMEDIATE")  # from here on no run can begin to use a result
        artifacts = own_artifacts(database, note.keys)
        found, _ = within(home, places(home, database))
        note.paths = list(dict.fromkeys([*note.paths, *(str(path.relative_to(home.root)) for path in found)]))
        note.write(home)
        database.execute("CREATE TEMP TABLE gone (id TEXT PRIMARY KEY)")
        database.executemany("INSERT INTO gone VALUES (?)", [(artifact,) for artifact in artifacts])
        for statement in _STATEMENTS:
            database.execute(statement)
        database.execute(
            "DELETE FROM tag WHERE name = ? AND NOT EXISTS (SELECT 1 FROM tag_resource JOIN pipeline_run "
            "ON pipeline_run.id = resource_id WHERE tag_id = tag.id)",
            (f"{RUN_TAG}={note.name}",),
        )
        database.execute("COMMIT")


# The order counts: what is found by a row goes before that row. What belongs to one row alone goes with it (CASCADE).
_STATEMENTS = (
    "INSERT OR IGNORE INTO gone SELECT id FROM step_run WHERE pipeline_run_id IN (SELECT key FROM going)",
    "INSERT OR IGNORE INTO gone SELECT model_version_id FROM pipeline_run WHERE id IN (SELECT key FROM going) AND "
    "model_version_id NOT IN (SELECT model_version_id FROM pipeline_run WHERE model_version_id IS NOT NULL "
    "AND id NOT IN (SELECT key FROM going))",
    "INSERT OR IGNORE INTO gone SELECT snapshot_id FROM pipeline_run WHERE id IN (SELECT key FROM going) AND "
    "snapshot_id NOT IN (SELECT snapshot_id FROM pipeline_run WHERE snapshot_id IS NOT NULL AND id NOT IN "
    "(SELECT key FROM going)) AND snapshot_id NOT IN (SELECT snapshot_id FROM step_run WHERE snapshot_id IS NOT NULL "
    "AND pipeline_run_id NOT IN (SELECT key FROM going)) "
    "AND snapshot_id NOT IN (SELECT id FROM pipeline_snapshot WHERE name IS NOT NULL)",
    # The oldest copy of a step inherits its place in the cache, which knows no copies.
    "CREATE TEMP TABLE heir AS SELECT original_step_run_id AS original, id AS copy, min(created) FROM step_run "
    "WHERE pipeline_run_id NOT IN (SELECT key FROM going) AND original_step_run_id IN (SELECT id FROM step_run "
    "WHERE pipeline_run_id IN (SELECT key FROM going)) GROUP BY 1",
    "UPDATE step_run SET status = 'completed', original_step_run_id = NULL "
    "WHERE status = 'cached' AND id IN (SELECT copy FROM heir)",
    # What was made again stays out of the cache, whoever has it.
    f"UPDATE step_run SET cache_expires_at = '{MADE_AGAIN.strftime(AS_STORED)}' WHERE id IN (SELECT copy FROM heir "
    f"JOIN step_run AS made ON made.id = original AND made.cache_expires_at = '{MADE_AGAIN.strftime(AS_STORED)}')",
    "UPDATE step_run SET original_step_run_id = (SELECT copy FROM heir WHERE original = original_step_run_id) "
    "WHERE original_step_run_id IN (SELECT original FROM heir)",
    "INSERT OR IGNORE INTO gone SELECT key FROM going",
    "DELETE FROM tag_resource WHERE resource_id IN (SELECT id FROM gone)",
    "DELETE FROM run_metadata_resource WHERE resource_id IN (SELECT id FROM gone)",
    "DELETE FROM run_metadata WHERE id NOT IN (SELECT run_metadata_id FROM run_metadata_resource)",
    "DELETE FROM pipeline_run WHERE id IN (SELECT key FROM going)",
    "DELETE FROM pipeline_snapshot WHERE id IN (SELECT id FROM gone)",
    "DELETE FROM artifact_version WHERE id IN (SELECT id FROM gone)",
    "DELETE FROM artifact WHERE id NOT IN (SELECT artifact_id FROM artifact_version)",
    "DELETE FROM model_version WHERE id IN (SELECT id FROM gone)",
)


def remove_from_mlflow(home: Home, note: Note) -> None:
    """Remove runs and logged models that no version is made of for good, as `mlflow gc` does, and all their traces.

    The last run of a sweep takes the run of the sweep with it.
    """
    file = MLFLOW.file(home)
    if not file.is_file() or not note.mlflow_runs:
        return
    with opened(file) as database:
        note.mlflow_runs += _emptied_sweeps(database, note.mlflow_runs)
        marks = ", ".join("?" * len(note.mlflow_runs))
        traces = database.execute(
            "SELECT experiment_id, info.request_id FROM trace_info AS info JOIN trace_request_metadata AS about "
            f"ON about.request_id = info.request_id WHERE about.key = 'mlflow.sourceRun' AND about.value IN ({marks})",
            note.mlflow_runs,
        ).fetchall()
        there = unregistered_runs(database, note.mlflow_runs)
        models = unregistered_models(database, note.mlflow_runs)
    folders = [place.removesuffix("/artifacts") for _, place in [*there, *models]]
    found, _ = within(home, folders)
    note.paths = list(dict.fromkeys([*note.paths, *(str(path.relative_to(home.root)) for path in found)]))
    note.write(home)
    if not (traces or there or models):
        return
    from mlflow import MlflowClient

    store = MlflowClient(home.tracking_uri)._tracking_client.store
    for experiment in {experiment for experiment, _ in traces}:
        ids = [trace for own, trace in traces if own == experiment]
        for start in range(0, len(ids), _TRACES_AT_ONCE):
            store.delete_traces(str(experiment), trace_ids=ids[start : start + _TRACES_AT_ONCE])
    for model, _ in models:
        store._hard_delete_logged_model(model)
    for run, _ in there:
        store._hard_delete_run(run)


def _emptied_sweeps(database: sqlite3.Connection, mlflow_runs: Sequence[str]) -> list[str]:
    """Return the MLflow runs of sweeps that have ended and have no runs but these."""
    marks = ", ".join("?" * len(mlflow_runs))
    found = database.execute(
        "SELECT DISTINCT above.value FROM tags AS above JOIN runs ON runs.run_uuid = above.value "
        f"JOIN tags AS sweep ON sweep.run_uuid = above.value AND sweep.key = '{SWEEP_TAG}' "
        f"WHERE above.key = '{PARENT_TAG}' AND above.run_uuid IN ({marks}) AND runs.status <> 'RUNNING' "
        f"AND above.value NOT IN (SELECT value FROM tags WHERE key = '{PARENT_TAG}' AND run_uuid NOT IN ({marks}))",
        [*mlflow_runs, *mlflow_runs],
    )
    return [run for (run,) in found]
