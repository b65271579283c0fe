"""The last sign of life of a run whose process was killed: it is marked as failed later, maybe by days."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from mlops.home.folder import Home


def last_sign(home: Home, run_id: str, name: str) -> datetime | None:
    """Return when something of an attempt at the run of this name was last written, in UTC; `None` if nothing is there.

    It is asked before the run is marked as failed: that changes its files.
    """
    found, runs = list[datetime](), home.root / "runs"
    for file in (*runs.glob(f"{run_id}.*"), *(runs / name).glob("*.json")):
        with suppress(OSError):
            found.append(datetime.fromtimestamp(file.stat().st_mtime, UTC))
    return max(found, default=None)
