"""Reads a round's rollouts from the files of a home, without ZenML, which takes six seconds to say where they are.

Instead its database is read, for the places of the files alone. What that does not answer without doubt (a run by an
ambiguous name or without a tag, a step that was tried twice, files elsewhere, another version's tables) is left to
ZenML itself.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mlops.home.databases import ZENML, opened
from mlops.home.folder import Home
from mlops.ids import REWARDS, ROLLOUTS, RUN_TAG, TASKS, TRAIN_REPORT, UNUSED, Stored, round_name
from mlops.stored.artifact_table import stored_file, tables_of
from mlops.stored.rollouts import ScoredRound
from mlops.stored.verification import stored_seal
from rlft import storage
from rlft.errors import DamagedError, FormatVersionError
from rlft.formats import KEY, REPORT
from rlft.seals import Seal
from rlft.types import Task

_OF_A_ROUND = (ROLLOUTS, REWARDS, TRAIN_REPORT, UNUSED)
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


class _UnknownError(_UnclearError):
    """There is no such run here."""


def read_round(home: Home, run: str, round: str) -> ScoredRound | None:
    """Return the rollouts of a round as `load_round` does; `None` if ZenML has to be asked.

    Where ZenML's database is damaged, or does not know the run, the run's own table of artifacts is used.

    `run` is an id or a name, or the beginning of one; `round` is what `round_name` takes. Raises DamagedError.
    """
    name = round_name(round)
    try:
        with opened(ZENML.file(home), seconds=1) as database:
            attempts = _attempts(database, run)
            files = [_file(home, database, attempts, stored, name) for stored in _OF_A_ROUND]
            files.append(_file(home, database, attempts, TASKS, ""))
    except (sqlite3.DatabaseError, _UnknownError):  # the run may be older than ZenML's database, and have its own table
        tables = tables_of(home, run)
        files = [stored_file(home, tables, stored, name) for stored in _OF_A_ROUND]
        files.append(stored_file(home, tables, TASKS, ""))
    except _UnclearError:
        return None
    rollouts, rewards, report, unused, tasks = files
    if rollouts is None:
        return None

    def read(file: Path, stored: Stored, parse: Callable[[bytes], Any]) -> Any:
        try:
            return _checked(home, file, parse)
        except DamagedError as damage:
            raise damage.of(run, stored.step_id(name)) from damage

    reports = [(report, TRAIN_REPORT), (unused, UNUSED)]
    found = next((read(file, stored, _fates) for file, stored in reports if file is not None), ({}, {}, None))
    fates, drawn, age = found
    return ScoredRound(
        name,
        read(rollouts, ROLLOUTS, lambda content: storage.rollouts_from_table(_table(content))),
        None
        if rewards is None
        else read(rewards, REWARDS, lambda content: storage.rewards_from_table(_table(content))),
        fates,
        {} if tasks is None else _tasks(home, tasks),
        drawn,
        age,
    )


def _fates(content: bytes) -> tuple[dict[str, str], dict[str, str], int]:
    """Return the fates of rollouts, why tasks were drawn, and their age; older versions do not tell the last two."""
    report = json.loads(content)
    REPORT.check(report.get(KEY))
    return dict(report["fates"]), dict(report.get("drawn", {})), int(report.get("age", 0))


def _tasks(home: Home, file: Path) -> dict[str, Task]:
    """Return stored tasks by their ids; nothing of damaged ones, as the rollouts that are asked for are whole."""
    try:
        return _checked(home, file, lambda content: storage.tasks_from_table(_table(content))).by_id()
    except (DamagedError, KeyError):
        return {}


def _checked(home: Home, file: Path, parse: Callable[[bytes], Any]) -> Any:
    """Return what is stored in a file.

    Raises DamagedError if it is not what was stored, or cannot be read, and FormatVersionError for a format that is not
    read.
    """
    seal = stored_seal(home, file.parent) or Seal(str(file.parent), {})
    try:
        content = file.read_bytes()
        if seal.files:
            seal.check_bytes(file.name, content)
        return parse(content)
    except FormatVersionError as other:
        raise other.at(str(file)) from other
    except DamagedError:
        raise
    except Exception as cause:  # whatever pyarrow and json make of bytes that are none of theirs
        raise seal.damage(file.name, f"this file cannot be read: {type(cause).__name__}: {cause}") from cause


def _table(content: bytes) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(content)).read()


def _attempts(database: sqlite3.Connection, run: str) -> list[str]:
    """Return the ids of all attempts at a run in the order in which `load_round` looks through them.

    Raises _UnclearError.
    """
    asked = (run.replace("-", "").lower(), run)  # ZenML's database has ids without hyphens
    found = database.execute(_EXACT, asked).fetchall() or database.execute(_BEGINS, asked).fetchall()
    if len(found) != 1:
        raise _UnclearError if found else _UnknownError
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
