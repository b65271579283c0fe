"""What is wrong with the databases of a home, in sentences. Nothing is repaired here."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mlops.home.databases import DATABASES, ZENML, Database, complaint
from mlops.home.entries import check_entries
from mlops.home.folder import Home
from mlops.home.locks import holders_of
from mlops.home.settings import check_place
from rlft.errors import StorageError


def find_faults(home: Home, databases: Sequence[Database] = DATABASES) -> list[StorageError]:
    """Return an error for each database that cannot be read, or is gone although there were runs."""
    return [_error(home, database, why) for database in databases if (why := _why(home, database))]


def check_home(home: Home, databases: Sequence[Database] = DATABASES) -> None:
    """Raise StorageError for an entry that is odd, a home that was moved here, or the first database with a fault."""
    check_entries(home)
    check_place(home)
    for fault in find_faults(home, databases):
        raise fault


def explained(home: Home, error: BaseException) -> list[StorageError]:
    """Return what an unexpected error says of the home's databases; nothing if they have no part in it."""
    said = str(error)
    if faults := find_faults(home):
        return faults
    if "database is locked" in said:
        holders = {pid for database in DATABASES for pid in holders_of(database.file(home))}
        who = f"process {', '.join(map(str, sorted(holders)))}" if holders else "another process"
        fix = "wait for it or end it; what was begun goes on with `rlft resume`"
        return [StorageError(f"{who} has kept a database of the runs locked for long", where=str(home.root), fix=fix)]
    if re.search("no such (table|column)", said):
        return [_error(home, ZENML, f"is damaged, or of another version of ZenML: {said.splitlines()[0]}")]
    return []


def _why(home: Home, database: Database) -> str | None:
    if not database.file(home).is_file():
        return "is gone" if any(home.root.glob(database.beside)) else None
    said = complaint(database.file(home))
    return said and f"is damaged: {said}"


def _error(home: Home, database: Database, why: str) -> StorageError:
    return StorageError(
        f"this database {why}. It holds {database.holds}. Nothing else is lost: {database.spares}",
        where=str(database.file(home)),
        fix=f"put a copy of the whole folder back if you have one; else save what you need of it, delete {home.root}, "
        "and run again",
    )
