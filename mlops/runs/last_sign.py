"""The last sign of life of a run whose process was killed: it is marked as failed later, maybe by days."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from datetime import UTC, datetime

from mlops.home.databases import ZENML, opened
from mlops.home.folder import Home

_STEPS = "SELECT start_time, end_time, latest_heartbeat FROM step_run WHERE pipeline_run_id = ?"
_BEGAN = "SELECT start_time FROM pipeline_run WHERE id = ?"


def last_sign(home: Home, run_id: str) -> datetime | None:
    """Return when something of a run was last begun, ended or written, in UTC; `None` if nothing of it is known.

    It is asked before the run is marked as failed: that changes its steps and its summary.
    """
    key, found = run_id.replace("-", ""), list[datetime]()
    with suppress(sqlite3.Error), opened(ZENML.file(home)) as database:
        rows = [*database.execute(_STEPS, (key,)), *database.execute(_BEGAN, (key,))]
        found += [_time(text) for row in rows for text in row if text]
    for file in (home.root / "runs").glob(f"{run_id}.*"):
        with suppress(OSError):
            found.append(datetime.fromtimestamp(file.stat().st_mtime, UTC))
    return max(found, default=None)


def _time(text: str) -> datetime:
    """ZenML's times are in UTC, without a zone."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
