"""Plans the removal of runs: which may go, what of ZenML and MLflow goes with them, and how many bytes that frees.

A result that a run took from the cache belongs to all runs that use it, and goes with the last of them.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import UUID

from mlops.home.databases import MLFLOW, ZENML, opened
from mlops.home.folder import Home
from mlops.runs.listed import ListedRun
from rlft.errors import StorageError

# Results of steps of these attempts that no step of another attempt has made or read.
_OWN_ARTIFACTS = """
SELECT DISTINCT id, uri FROM artifact_version WHERE id IN (
  SELECT artifact_id FROM step_run_output_artifact AS used JOIN step_run ON step_run.id = used.step_id
  WHERE step_run.pipeline_run_id IN (SELECT key FROM going))
AND id NOT IN (
  SELECT artifact_id FROM step_run_output_artifact AS used JOIN step_run ON step_run.id = used.step_id
  WHERE step_run.pipeline_run_id NOT IN (SELECT key FROM going))
AND id NOT IN (
  SELECT artifact_id FROM step_run_input_artifact AS used JOIN step_run ON step_run.id = used.step_id
  WHERE step_run.pipeline_run_id NOT IN (SELECT key FROM going))
"""
_MOVE = "remove the alias first, on the page of the model in MLflow (`rlft ui`), or let a newer version take it"
_STORES = "zenml/local_stores"
_LOGS = """
SELECT uri FROM logs WHERE pipeline_run_id IN (SELECT key FROM going)
OR step_run_id IN (SELECT id FROM step_run WHERE pipeline_run_id IN (SELECT key FROM going))
"""


@dataclass(slots=True)
class Plan:
    """What is to be removed: runs, paths of files and folders in the home, and the bytes that this frees.

    `kept` are the runs that were asked for and stay, each with the reason; `elsewhere` are places outside the home, of
    which nothing is removed.
    """

    runs: list[ListedRun]
    kept: list[tuple[ListedRun, str]] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    bytes: int = 0


def chosen_runs(runs: Sequence[ListedRun], *, keep_last: int | None, older_than: timedelta | None) -> list[ListedRun]:
    """Return the runs that are neither among the newest `keep_last` nor younger than `older_than`; `None` is no rule.

    `runs` come with the newest first.
    """
    now = datetime.now(UTC)
    old = runs if keep_last is None else runs[keep_last:]
    return [run for run in old if older_than is None or now - run.began > older_than]


def why_kept(run: ListedRun, *, resumable_too: bool) -> str | None:
    """Return why a run must stay, or `None`."""
    if run.status == "running":
        return "it goes on"
    if run.named:
        return f"{' and '.join(run.named)}; {_MOVE}"
    if run.is_resumable and not resumable_too:
        return "it can be resumed; name it in `rlft delete`, or give --failed"
    return None


def make_plan(home: Home, asked: Iterable[ListedRun], *, resumable_too: bool) -> Plan:
    """Plan the removal of these runs. Raises StorageError if ZenML's database cannot be read."""
    plan = Plan([])
    for run in asked:
        if reason := why_kept(run, resumable_too=resumable_too):
            plan.kept.append((run, reason))
        else:
            plan.runs.append(run)
    if not plan.runs:
        return plan
    try:
        with opened(ZENML.file(home)) as database:
            own_artifacts(database, keys_of(plan.runs))
            uris = places(home, database)
        uris += _mlflow_folders(home, plan.runs)
    except sqlite3.Error as cause:
        raise StorageError(
            f"what runs share cannot be known, as a database cannot be read: {cause}",
            where=str(home.root),
            fix="`rlft doctor` says what to do",
        ) from cause
    plan.paths, plan.elsewhere = within(home, uris)
    plan.paths += [file for run in plan.runs for file in own_files(home, run)]
    plan.bytes = freed_bytes(plan.paths)
    return plan


def keys_of(runs: Iterable[ListedRun]) -> list[str]:
    """Return the ids of all attempts at runs, as ZenML's database has them."""
    return [attempt.key for run in runs for attempt in run.attempts]


def own_artifacts(database: sqlite3.Connection, keys: Sequence[str]) -> list[str]:
    """Return the ids of the artifacts that go with these attempts, which stand in the table `going` from then on."""
    database.execute("CREATE TEMP TABLE IF NOT EXISTS going (key TEXT PRIMARY KEY)")
    database.execute("DELETE FROM going")
    database.executemany("INSERT INTO going VALUES (?)", [(key,) for key in keys])
    return [artifact for artifact, _ in database.execute(_OWN_ARTIFACTS)]


def places(home: Home, database: sqlite3.Connection) -> list[str]:
    """Return where ZenML keeps what goes with the attempts in `going`: artifacts, logs, and what kills have left."""
    artifacts = [uri for _, uri in database.execute(_OWN_ARTIFACTS)]
    return artifacts + [uri for (uri,) in database.execute(_LOGS)] + _left_by_kills(home, database)


def _left_by_kills(home: Home, database: sqlite3.Connection) -> list[str]:
    """Return folders that steps of the attempts in `going` had begun to write when their process was killed.

    An output lies in `STORE/step/output/id of the step's run/…`. What is complete is an artifact, which others may use.
    """
    steps = database.execute("SELECT id FROM step_run WHERE pipeline_run_id IN (SELECT key FROM going)")
    ids = {str(UUID(key)) for (key,) in steps}
    named = {uri for (uri,) in database.execute("SELECT uri FROM artifact_version")}
    outputs = (home.root / _STORES).glob("*/*/*")
    begun = [folder / name for folder in outputs if folder.is_dir() for name in os.listdir(folder) if name in ids]
    return [str(part) for folder in begun for part in folder.iterdir() if str(part) not in named]


_OF_AN_ATTEMPT = (
    ".json",
    ".missed.json",
    ".process.json",
    ".artifacts.json",
    ".calls",
    ".evaluation.json",
    ".replay.json",
)


def own_files(home: Home, run: ListedRun) -> list[Path]:
    """Return the files that a run has left in the home beside its databases and artifacts."""
    ids = [attempt.id for attempt in run.attempts]
    files = [home.root / "runs" / f"{one}{end}" for one in ids for end in _OF_AN_ATTEMPT]
    files += [file for one in ids for file in (home.root / "runs").glob(f"{one}-*.missed.json")]  # of an evaluation
    return [file for file in files if file.is_file()] + list(filter(Path.is_dir, [home.root / "runs" / run.name]))


def _mlflow_folders(home: Home, runs: Iterable[ListedRun]) -> list[str]:
    """Return the places of artifacts of MLflow runs, and of logged models that no registered version is made of."""
    ids = [one for run in runs for one in run.mlflow_runs]
    if not MLFLOW.file(home).is_file():
        return []
    with opened(MLFLOW.file(home)) as database:
        there = [*unregistered_runs(database, ids), *unregistered_models(database, ids)]
    return [uri.removesuffix("/artifacts") for _, uri in there if uri]


def registered_places(home: Home) -> list[Path]:
    """Return where files of versions in the registry lie, as far as these are paths on this machine."""
    if not MLFLOW.file(home).is_file():
        return []
    with opened(MLFLOW.file(home)) as database:
        uris = database.execute("SELECT source FROM model_versions UNION SELECT storage_location FROM model_versions")
        return [path for (uri,) in uris if uri and (path := _local(uri)) is not None and path.is_absolute()]


def unregistered_runs(database: sqlite3.Connection, ids: Sequence[str]) -> list[tuple[str, str]]:
    """Return (id, place) of those of these MLflow runs in whose artifacts no version of the registry lies."""
    return database.execute(
        f"SELECT run_uuid, artifact_uri FROM runs WHERE run_uuid IN ({', '.join('?' * len(ids))}) "
        f"AND NOT EXISTS (SELECT 1 FROM model_versions WHERE {_NAMED_BY_A_VERSION.format('runs.run_uuid')})",
        ids,
    ).fetchall()


_NAMED_BY_A_VERSION = "instr(coalesce(storage_location, ''), {0}) OR instr(coalesce(source, ''), {0})"


def unregistered_models(database: sqlite3.Connection, mlflow_runs: Sequence[str]) -> list[tuple[str, str]]:
    """Return (id, place) of the logged models of MLflow runs of which no version of the registry is made."""
    marks = ", ".join("?" * len(mlflow_runs))
    return database.execute(
        f"SELECT model_id, artifact_location FROM logged_models AS model WHERE source_run_id IN ({marks}) "
        f"AND NOT EXISTS (SELECT 1 FROM model_versions WHERE {_NAMED_BY_A_VERSION.format('model.model_id')})",
        mlflow_runs,
    ).fetchall()


def within(home: Home, uris: Iterable[str]) -> tuple[list[Path], list[str]]:
    """Divide places into paths that are there in the home, and those that lie elsewhere or behind a link."""
    paths: list[Path] = []
    elsewhere: list[str] = []
    for uri in dict.fromkeys(uris):
        path = _local(uri)
        if path is None or not _is_a_part(home, path):
            elsewhere.append(uri)
        elif path.exists():
            paths.append(path)
    return paths, elsewhere


def _local(uri: str) -> Path | None:
    """Return the path that an address names; `None` for one of another kind."""
    parts = urlsplit(uri)
    if parts.scheme not in ("", "file"):
        return None
    return Path(os.path.normpath(unquote(parts.path) if parts.scheme == "file" else uri))


def _is_a_part(home: Home, path: Path) -> bool:
    """Return whether a path lies deep in the home, no link leads out of it, and no database lies below it."""
    if not path.is_relative_to(home.root) or len(path.relative_to(home.root).parts) < 2:
        return False
    inner = [place for place in (path, *path.parents) if place.is_relative_to(home.root) and place != home.root]
    return not any(place.is_symlink() for place in inner) and not ZENML.file(home).is_relative_to(path)


def freed_bytes(paths: Iterable[Path]) -> int:
    """Return how many bytes removing paths frees. A file that has another name elsewhere (a hard link) frees none."""
    found = [each for path in paths for each in _files(path)]
    names = Counter((each.st_dev, each.st_ino) for each in found)
    sizes = {
        (each.st_dev, each.st_ino): each.st_size for each in found if names[each.st_dev, each.st_ino] >= each.st_nlink
    }
    return sum(sizes.values())


def _files(path: Path) -> Iterator[os.stat_result]:
    """Yield the regular files at or below a path; links are not followed."""
    names = (
        [path] if not path.is_dir() else [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    )
    for name in names:
        try:
            found = name.lstat()
        except OSError:  # a run that goes on may remove files of its own
            continue
        if stat.S_ISREG(found.st_mode):
            yield found
