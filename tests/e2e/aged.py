"""Runs of a ZenML whose last sign of life was long ago: waiting for that takes minutes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from mlops.runs.noting import SILENT_SECONDS


def age(database: Path) -> None:
    """Let ZenML have seen all runs of its database for the last time so long ago that they count as killed."""
    shift = f"-{SILENT_SECONDS:.0f} seconds"
    with closing(sqlite3.connect(database)) as opened, opened:
        for table in ("pipeline_run", "step_run"):
            times = ["created", "updated", "start_time", "end_time"]
            earlier = ", ".join(f"{each} = strftime('%Y-%m-%d %H:%M:%f', {each}, '{shift}')" for each in times)
            opened.execute(f"UPDATE {table} SET {earlier}")
