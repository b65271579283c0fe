"""What is wrong with the databases of a home that has had runs, in sentences: what is lost, what is not, the way on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlops.home.backups import backups_of, newest_backup, time_of
from mlops.home.contents import has_changed_unwritten
from mlops.home.databases import DATABASES, ZENML, Database, complaint, is_complete
from mlops.home.entries import check_entries
from mlops.home.folder import Home
from mlops.home.locks import holders_of
from mlops.home.settings import check_place
from rlft.errors import StorageError


@dataclass(frozen=True, slots=True)
class Fault:
    """A database that is damaged or gone although there were runs; `why` says which, and how it is known."""

    database: Database
    why: str

    def error(self, home: Home) -> StorageError:
        """Return the fault as an error that names the way on."""
        database = self.database
        newest = newest_backup(home, database)
        if newest is not None:
            instead = f"puts the copy of {time_of(newest)} in its place, which knows all before that time"
        else:
            instead = "saves what can be read of it, else makes a new one; there is no copy of it yet"
        else_ = f"Nothing else is lost: {database.spares}"
        if not any(home.root.glob(database.beside)):
            folder = home.root / Path(database.beside).parent
            else_ = f"What lay beside it in {folder} is gone, too. Summaries are in runs/"
        return StorageError(
            f"{self.why}. It holds {database.holds}. {else_}",
            where=str(database.file(home)),
            fix=f"`rlft doctor --restore` keeps what is left of it in damaged/, and {instead}",
        )


def find_faults(home: Home, databases: Sequence[Database] = DATABASES, *, deep: bool = False) -> list[Fault]:
    """Return the faults of databases; `deep` also reads every row, which takes longer.

    A database that is missing or half made in a home without a trace of runs is none: it is simply made.
    """
    return [Fault(database, why) for database in databases for why in _reasons(home, database, deep)]


def check_home(home: Home, databases: Sequence[Database] = DATABASES) -> None:
    """Raise StorageError for an entry that is odd, a home that was moved here, or the first database with a fault."""
    check_entries(home)
    check_place(home)
    for fault in find_faults(home, databases):
        raise fault.error(home)


def explained(home: Home, error: BaseException) -> list[StorageError]:
    """Return what an unexpected error says of the home's databases; nothing if they have no part in it."""
    said = str(error)
    if faults := find_faults(home, deep=True):
        return [fault.error(home) for fault in faults]
    if "database is locked" in said:
        holders = {pid for database in DATABASES for pid in holders_of(database.file(home))}
        who = f"process {', '.join(map(str, sorted(holders)))}" if holders else "another process"
        fix = "wait for it or end it; what was begun goes on with `rlft resume`"
        return [StorageError(f"{who} has kept a database of the runs locked for long", where=str(home.root), fix=fix)]
    if re.search("no such (table|column)", said):
        fault = Fault(ZENML, f"this database is damaged, or of another version of ZenML: {said.splitlines()[0]}")
        return [fault.error(home)]
    return []


def _reasons(home: Home, database: Database, deep: bool) -> Iterator[str]:
    file = database.file(home)
    if not file.is_file():
        if _had_runs(home, database):
            yield "this database is gone"
        return
    if file.stat().st_size and (said := complaint(file, deep=deep)):
        yield f"this database is damaged: {said}"
        return
    if has_changed_unwritten(home, database):
        yield "this database is damaged: it has changed since the end of a run, and nothing has written to it"
        return
    if not is_complete(home, database) and _had_runs(home, database):
        yield "this database is damaged: it has lost its tables"


def _had_runs(home: Home, database: Database) -> bool:
    return any(home.root.glob(database.beside)) or bool(backups_of(home, database))
