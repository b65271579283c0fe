"""Files of runs that the databases of a home name and that are gone as a whole, with the way on.

A single file that is damaged or gone is told when it is read, by its seal. Here it is about folders that were deleted,
replaced, or lie on a disk that is not there: one error after another would name their files.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mlops.home.databases import MLFLOW, ZENML, opened
from mlops.home.folder import LOCK, Home
from mlops.home.locks import locked
from rlft.errors import StorageError

_STORES = "zenml/local_stores"
# What the cache would give to a run, or a resume would go on from.
_GIVEN = """
SELECT step_run.id, artifact_version.uri FROM step_run
JOIN step_run_output_artifact AS output ON output.step_id = step_run.id
JOIN artifact_version ON artifact_version.id = output.artifact_id
WHERE step_run.cache_expires_at IS NULL OR step_run.cache_expires_at > ?
"""
_VERSIONS = "SELECT name, version, storage_location FROM model_versions ORDER BY name, version"
# MLflow removes aliases with their version, for which it keeps a row of this stage; a hand may not.
_DANGLING = """
SELECT alias.name, alias.alias, alias.version FROM registered_model_aliases AS alias
WHERE NOT EXISTS (SELECT 1 FROM model_versions AS own WHERE own.name = alias.name AND own.version = alias.version
  AND coalesce(own.current_stage, '') != 'Deleted_Internal')
ORDER BY alias.name, alias.alias
"""


def check_artifacts(home: Home) -> None:
    """Raise StorageError if artifacts of runs were stored here, and none of them is there any more."""
    if _lost_steps(home):
        raise StorageError(
            "the artifacts of all runs are gone: policies, rollouts, rewards and reports. Not lost are their curves "
            "and conversations in MLflow, registered models in mlflow-artifacts/, and summaries in runs/",
            where=str(home.root / _STORES),
            fix="put the folder back, as from a disk that is not mounted; or `rlft doctor --restore` makes the cache "
            "forget them, and `rlft run` makes all of it again",
        )


def forget_artifacts(home: Home) -> bool:
    """Keep ZenML from giving out results that are gone as a whole; returns whether there were any.

    Raises sqlite3.Error or OSError if nothing can be written.
    """
    steps = _lost_steps(home)
    if steps:
        alone = locked(home.root / LOCK, seconds=10, refused=TimeoutError)
        with alone, opened(ZENML.file(home), "rw") as database:
            database.execute("BEGIN IMMEDIATE")
            rows = [(_now(), step) for step in steps]
            database.executemany("UPDATE step_run SET cache_expires_at = ? WHERE id = ?", rows)
            database.execute("COMMIT")
    return bool(steps)


def lost_versions(home: Home) -> list[str]:
    """Return the registered versions (`NAME VERSION`) whose files should lie in the home and are gone."""
    return [f"{name} {version}" for name, version, uri in _in_mlflow(home, _VERSIONS) if not any(_there(home, [uri]))]


def dangling_aliases(home: Home) -> list[tuple[str, str, str]]:
    """Return name, alias and version of each alias in the registry whose version does not exist any more."""
    return [(name, alias, str(version)) for name, alias, version in _in_mlflow(home, _DANGLING)]


def _in_mlflow(home: Home, query: str) -> list[tuple[str, str, str]]:
    """Return the rows of MLflow's database without one that has no value in its last column."""
    if not MLFLOW.file(home).is_file():
        return []
    try:
        with opened(MLFLOW.file(home)) as database:
            return [row for row in database.execute(query).fetchall() if row[-1]]
    except sqlite3.Error:  # it is told elsewhere that it is damaged
        return []


def _lost_steps(home: Home) -> list[str]:
    """Return the steps whose results are gone, if none of all results in the home is there."""
    if not ZENML.file(home).is_file():
        return []
    try:
        with opened(ZENML.file(home)) as database:
            rows = database.execute(_GIVEN, (_now(),)).fetchall()
    except sqlite3.Error:  # it is told elsewhere that it is damaged
        return []
    own = [(step, uri) for step, uri in rows if Path(uri).is_relative_to(home.root)]
    return [] if any(_there(home, (uri for _, uri in own))) else sorted({step for step, _ in own})


def _there(home: Home, uris: Iterable[str]) -> Iterable[bool]:
    """Yield of each place whether it is there, or lies elsewhere, where it cannot be looked for."""
    for uri in uris:
        parts = urlsplit(uri)
        path = Path(unquote(parts.path) if parts.scheme == "file" else uri)
        yield parts.scheme not in ("", "file") or not path.is_relative_to(home.root) or path.exists()


def _now() -> str:
    """Return the time as ZenML writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
