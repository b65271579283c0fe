"""What keeps a home from being used, in sentences. Nothing is repaired here."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from mlops.home.databases import DATABASES, Database
from mlops.home.folder import Home
from rlft.errors import StorageError

FORMAT = 1
_DAMAGED = re.compile("malformed|not a database|no such (?:table|column)")


def check_home(home: Home, databases: Sequence[Database] = DATABASES) -> None:
    """Raise StorageError for a home that was moved here or is of a newer rlft, or whose database is gone or is none."""
    try:
        noted = json.loads(home.note.read_text(encoding="utf-8"))
        made_in, version = str(noted["path"]), int(noted["format"])
    except FileNotFoundError:  # a new one, or one from before there were notes
        made_in, version = str(home.root), FORMAT
    except (OSError, ValueError, TypeError, KeyError) as cause:
        raise StorageError(f"this cannot be read: {cause}", where=str(home.note), fix="remove it") from cause
    if version > FORMAT:
        raise StorageError("this folder was made by a newer rlft", where=str(home.root), fix="update rlft")
    if made_in != str(home.root):
        raise StorageError(
            f"this folder was moved or copied here from {made_in}, whose paths are in its databases",
            where=str(home.root),
            fix="move it back to where it was made, or set RLFT_HOME to a new folder",
        )
    for database in databases:
        if why := _why(home, database):
            raise _error(home, f"{database.file(home)} {why}. It holds {database.holds}; {database.spares}")


def explained(home: Home, error: BaseException) -> StorageError | None:
    """Return what an unexpected error says of the home's databases; `None` if they have no part in it."""
    try:
        check_home(home)
    except StorageError as fault:
        return fault
    said = str(error)
    if "database is locked" in said:
        fix = "wait for it or end it; what was begun goes on with `rlft resume`"
        return StorageError("a process has kept a database of the runs locked for long", where=str(home.root), fix=fix)
    if _DAMAGED.search(said):
        files = " or ".join(str(database.file(home)) for database in DATABASES)
        return _error(home, f"{files} is damaged, or of another version: {said.splitlines()[0]}")
    return None


def _why(home: Home, database: Database) -> str | None:
    """Return what is wrong with a database of a home that has had runs."""
    if not any(home.root.glob(database.beside)):
        return None
    try:
        with database.file(home).open("rb") as file:
            is_one = file.read(16) == b"SQLite format 3\0"
    except FileNotFoundError:
        return "is gone"
    except OSError as cause:
        return f"cannot be read: {cause}"
    return None if is_one else "is damaged: it is no database"


def _error(home: Home, what: str) -> StorageError:
    return StorageError(
        what,
        where=str(home.root),
        fix=f"put a copy of the whole folder back if you have one; else save what you need of it, delete {home.root}, "
        "and run again",
    )
