"""Copies of a home's databases in `backups/`, made at the end of each run; the newest two of each are kept.

After a removal of runs there is a new one alone: a copy that knows them would bring them back without their files.
"""

from __future__ import annotations

import logging
import re
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from mlops.home.contents import note_content
from mlops.home.databases import DATABASES, Database, is_whole, opened
from mlops.home.folder import LOCK, Home
from mlops.home.locks import locked
from rlft.shortage import shortage_of

logger = logging.getLogger(__name__)
_KEPT = 2
_SECONDS = 30.0  # that another process may keep a database locked
_FORM = "%Y%m%d-%H%M%S-%f"  # of the time in a name, which is UTC; names sort by it


def back_up(home: Home) -> None:
    """Copy the databases that are whole. Nothing is raised: a run that has ended must not fail for its copy."""
    for database in DATABASES:
        try:
            with locked(home.root / LOCK, seconds=_SECONDS, refused=_busy):
                _copy(home, database)
        except (OSError, sqlite3.Error) as cause:
            # A disk that takes nothing is told of by whatever needs it more than a copy does.
            level = logging.WARNING if shortage_of(cause) is None else logging.DEBUG
            logger.log(level, "no copy of %s could be made in %s: %s", database.path, _folder(home), cause)


def renew_backups(home: Home) -> None:
    """Copy the databases, and remove the older copies of each that could be copied. Nothing is raised."""
    before = {file for database in DATABASES for file in backups_of(home, database)}
    back_up(home)
    for database in DATABASES:
        files = backups_of(home, database)
        if files and files[0] not in before:
            for file in files[1:]:
                file.unlink(missing_ok=True)


def backups_of(home: Home, database: Database) -> list[Path]:
    """Return the copies of a database, the newest first."""
    return sorted(_folder(home).glob(f"{database.name}-*.db"), reverse=True)


def newest_backup(home: Home, database: Database) -> Path | None:
    """Return the newest copy of a database that is whole; `None` if there is none."""
    return next((file for file in backups_of(home, database) if is_whole(file, database)), None)


def time_of(backup: Path) -> str:
    """Return when a copy was made, for people."""
    made = datetime.strptime(re.sub(r"^[a-z]+-", "", backup.stem), _FORM)
    return f"{made:%Y-%m-%d %H:%M} UTC"


def _folder(home: Home) -> Path:
    return home.root / "backups"


def _busy(holder: str) -> TimeoutError:
    return TimeoutError(f"{holder} makes, moves or copies databases")


def _copy(home: Home, database: Database) -> None:
    """Copy a database under another name, which is changed once the copy is found to be whole."""
    file = database.file(home)
    if not file.is_file():
        return
    _folder(home).mkdir(exist_ok=True)
    for left in _folder(home).glob("*.partial"):
        if time.time() - left.stat().st_mtime > 3600:  # one that is younger may be another process's
            left.unlink(missing_ok=True)
    copy = _folder(home) / f"{database.name}-{datetime.now(UTC).strftime(_FORM)}.db"
    partial = copy.with_suffix(".partial")
    try:
        with opened(file, "rw", 5) as here, closing(sqlite3.connect(partial)) as there:
            _within(_SECONDS, here, there)
            note_content(home, database, here)
        if not is_whole(partial, database):
            logger.warning("%s is damaged (`rlft doctor` says how): earlier copies of it stay", file)
            return
        partial.rename(copy)
    finally:
        partial.unlink(missing_ok=True)
    for old in backups_of(home, database)[_KEPT:]:
        old.unlink(missing_ok=True)


def _within(seconds: float, here: sqlite3.Connection, there: sqlite3.Connection) -> None:
    """Copy all pages at once. SQLite itself would wait for a lock without end."""
    ends = time.monotonic() + seconds

    def check(status: int, remaining: int, total: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > ends:
            raise TimeoutError(f"another process has kept it locked for {seconds:.0f} s")

    here.backup(there, progress=check)
