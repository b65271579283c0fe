"""A home as a finished start leaves it, made at once: both databases, without their tables, and the note."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from mlops.home.folder import Home


def finish(home: Home) -> None:
    """Make it."""
    (home.root / "runs").mkdir(parents=True, exist_ok=True)
    for file in home.databases:
        file.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA user_version = 1")
    home.note.write_text(json.dumps({"path": str(home.root)}))
