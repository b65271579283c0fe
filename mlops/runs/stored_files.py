"""Reads a round's rollouts from the files of a home, without ZenML, which takes six seconds to say where they are.

Instead its database is read, for the places of the files alone. What that does not answer without doubt (a run by an
ambiguous name or without a tag, a step that was tried twice, files elsewhere, another version's tables) is left to
ZenML itself.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq

from mlops.home.folder import Home
from mlops.home.stores import DATABASE
from mlops.runs.ids import REWARDS, ROLLOUTS, RUN_TAG, TRAIN_REPORT, Stored, round_name
from mlops.runs.stored_rollouts import ScoredRound
from rlft import storage

_EXACT = "SELECT id FROM pipeline_run WHERE id = ? OR name = ?"
_BEGINS = "SELECT id FROM pipeline_run WHERE substr(id, 1, length(?1)) = ?1 OR substr(name, 1, length(?2)) = ?2"
# All attempts at a run share its tag; the one that is asked for comes first, then the newest of the others.
_ATTEMPTS = """
SELECT attempt.id FROM tag_resource AS own
JOIN tag ON tag.id = own.tag_id AND substr(tag.name, 1, length(?2)) = ?2
JOIN tag_resource AS shared ON shared.tag_id = tag.id
JOIN pipeline_run AS attempt ON attempt.id = shared.resource_id
WHERE own.resource_id = ?1
ORDER BY attempt.id = own.resource_id DESC, attempt.created DESC
"""
_OUTPUT = """
SELECT uri FROM step_run
JOIN step_run_output_artifact ON step_run_output_artifact.step_id = step_run.id
JOIN artifact_version ON artifact_version.id = step_run_output_artifact.artifact_id
WHERE step_run.pipeline_run_id = ? AND step_run.name = ? AND step_run_output_artifact.name = ?
"""


class _UnclearError(Exception):
    """What is asked for has no answer here, or several."""


def read_round(home: Home, run: str, round: str) -> ScoredRound | None:
    """Return the rollouts of a round as `load_round` does; `None` if ZenML has to be asked.

    `run` is an id or a name, or the beginning of one; `round` is what `round_name` takes.
    """
    name = round_name(round)
    try:
        with closing(sqlite3.connect(f"{(home.root / DATABASE).as_uri()}?mode=ro", uri=True, timeout=1)) as database:
            attempts = _attempts(database, run)
            rollouts = _file(home, database, attempts, ROLLOUTS, name)
            rewards = _file(home, database, attempts, REWARDS, name)
            report = _file(home, database, attempts, TRAIN_REPORT, name)
    except (sqlite3.Error, _UnclearError):
        return None
    if rollouts is None:
        return None
    return ScoredRound(
        name,
        storage.rollouts_from_table(pq.ParquetFile(rollouts).read()),
        None if rewards is None else storage.rewards_from_table(pq.ParquetFile(rewards).read()),
        {} if report is None else json.loads(report.read_text(encoding="utf-8"))["fates"],
    )


def _attempts(database: sqlite3.Connection, run: str) -> list[str]:
    """Return the ids of all attempts at a run in the order in which `load_round` looks through them.

    Raises _UnclearError.
    """
    asked = (run.replace("-", "").lower(), run)  # ZenML's database has ids without hyphens
    found = database.execute(_EXACT, asked).fetchall() or database.execute(_BEGINS, asked).fetchall()
    if len(found) != 1:
        raise _UnclearError
    attempts = [attempt for (attempt,) in database.execute(_ATTEMPTS, (*found[0], f"{RUN_TAG}="))]
    if not attempts:  # it was started before runs had tags
        raise _UnclearError
    return attempts


def _file(home: Home, database: sqlite3.Connection, attempts: list[str], stored: Stored, name: str) -> Path | None:
    """Return the file that a step stored at the call of this name, of the first of the attempts that has it.

    `None` if none has. Raises _UnclearError.
    """
    for attempt in attempts:
        found = [Path(uri) for (uri,) in database.execute(_OUTPUT, (attempt, stored.step_id(name), stored.output))]
        if not found:
            continue
        file = found[0] / stored.file
        if len(found) > 1 or not file.is_relative_to(home.root) or not file.is_file():
            raise _UnclearError
        return file
    return None
