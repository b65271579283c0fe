"""Keeps a table of a run's artifacts in its home, by which they are found without ZenML's database.

runs/ID.artifacts.json: {"format": 1, "name": ...,
  "steps": {"generate_rollouts_r000": {"rollouts": "zenml/local_stores/..."}}}
"""

from __future__ import annotations

import json
import logging
import sqlite3
from pathlib import Path
from typing import Any

from mlops.home.databases import ZENML, opened
from mlops.home.folder import Home
from mlops.ids import Stored
from rlft.errors import FormatVersionError
from rlft.files import write_file
from rlft.formats import KEY, PLACES
from rlft.shortage import shortage_of

logger = logging.getLogger(__name__)
_END = ".artifacts.json"
_OUTPUTS = """
SELECT step_run.name, step_run_output_artifact.name, artifact_version.uri FROM step_run
JOIN step_run_output_artifact ON step_run_output_artifact.step_id = step_run.id
JOIN artifact_version ON artifact_version.id = step_run_output_artifact.artifact_id
WHERE step_run.pipeline_run_id = ? ORDER BY step_run.rowid
"""


def keep_artifacts(home: Home, run_id: str, name: str) -> None:
    """Write the folders of all artifacts that an attempt at the run of this name has so far; those of the home as
    relative paths. Nothing is written for a run that is not in the home's ZenML, and nothing raised."""
    if not ZENML.file(home).is_file():  # all runs of this home are on stacks
        return
    try:
        with opened(ZENML.file(home), seconds=5) as database:
            rows = database.execute(_OUTPUTS, (run_id.replace("-", ""),)).fetchall()
        steps: dict[str, dict[str, str]] = {}
        for step, output, uri in rows:
            steps.setdefault(step, {})[output] = uri.removeprefix(f"{home.root}/")
        table = {KEY: PLACES.newest, "name": name, "steps": steps}
        if steps:
            write_file(home.root / "runs" / f"{run_id}{_END}", json.dumps(table, indent=1))
    except (OSError, sqlite3.Error) as cause:
        # A disk that takes nothing is told of by whatever needs it more.
        level = logging.WARNING if shortage_of(cause) is None else logging.DEBUG
        logger.log(level, "the table of the run's artifacts could not be written: %s", cause)


def tables_of(home: Home, run: str) -> list[dict[str, Any]]:
    """Return the tables of all attempts at a run, the newest first, by an id, its name, or the beginning of an id.

    Returns none if there is none, or if several runs fit.
    """
    tables = {file: _read(file) for file in (home.root / "runs").glob(f"*{_END}")}
    names = {table.get("name") for file, table in tables.items() if run == table.get("name") or _begins(file, run)}
    if len(names) != 1:
        return []
    newest_first = sorted(tables, key=lambda file: file.stat().st_mtime, reverse=True)
    return [tables[file] for file in newest_first if tables[file].get("name") in names]


def stored_file(home: Home, tables: list[dict[str, Any]], stored: Stored, name: str) -> Path | None:
    """Return the file that a step stored at the call of this name, by the first table that has it; else `None`."""
    for table in tables:
        if folder := table["steps"].get(stored.step_id(name), {}).get(stored.output):
            file = home.root / folder / stored.file
            return file if file.is_file() else None
    return None


def _begins(file: Path, run: str) -> bool:
    return bool(run) and file.name.startswith(run)


def _read(file: Path) -> dict[str, Any]:
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(table, dict) or not isinstance(table.get("steps"), dict):
        return {}
    try:
        PLACES.check(table.get(KEY), where=str(file))
    except FormatVersionError as other:  # there are others, and it is read only where ZenML's database is lost
        logger.warning("%s", other)
        return {}
    return table
