"""Puts a home in order whose databases were damaged or removed: `rlft doctor --restore`. Nothing is deleted."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from mlops.home.backups import newest_backup, time_of
from mlops.home.contents import forget_content, has_changed_unwritten, note_content
from mlops.home.databases import ZENML, Database, is_whole, opened
from mlops.home.faults import find_faults
from mlops.home.folder import LOCK, MAKING, Home
from mlops.home.locks import locked, removal_lock
from mlops.home.processes import living_notes
from mlops.home.salvage import salvage
from mlops.home.settings import settings_file
from mlops.home.stores import JOURNALS, complete_settings
from rlft.errors import StorageError
from rlft.files import link_or_copy

logger = logging.getLogger(__name__)
_RESULTS = """
SELECT output.step_id, artifact_version.uri FROM step_run_output_artifact AS output
JOIN artifact_version ON artifact_version.id = output.artifact_id
"""


def restore_home(home: Home) -> list[str]:
    """Replace each database with a fault, and say in a sentence for each what was done; nothing if there was no fault.

    What was there is kept in `damaged/`. In its place comes what can be read of it if that is everything, else the
    newest copy, else what can be read of it if ZenML or MLflow can work with that. Else it is left to `make_stores`.
    Raises StorageError if a run goes on in the home, runs are being removed, or it cannot be written to.
    """
    said = []
    if faults := find_faults(home, deep=True):
        _refuse_while_used(home)
        try:
            alone = locked(home.root / LOCK, seconds=10, refused=lambda holder: _busy(home, holder))
            with removal_lock(home), alone:  # in the order in which a removal takes them
                said = [_restore(home, fault.database) for fault in faults]
        except (OSError, sqlite3.Error) as cause:
            fix = "make room on the disk, or copy the folder to one that you can write to and name that in RLFT_HOME"
            raise StorageError(f"nothing can be restored: {cause}", where=str(home.root), fix=fix) from cause
    if complete_settings(home):
        said.append(f"{settings_file(home)} was damaged or gone, and is made again from the database.")
    return said


def _restore(home: Home, database: Database) -> str:
    """Replace one database; returns what was done."""
    file = database.file(home)
    making = home.root / f"{MAKING}{os.getpid()}"
    making.mkdir(exist_ok=True)
    try:
        made, source = _replacement(home, database, making / file.name)
        kept = _keep(home, file)
        forget_content(home, database)
        if made is not None:
            made.replace(file)
            with opened(file, "rw") as connection:
                note_content(home, database, connection)
        else:
            file.unlink(missing_ok=True)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    lost = "".join(_unknown_runs(home)) if database is ZENML else ""
    return f"{file} {source}.{f' What was there is in {kept}.' if kept else ''}{lost}"


def _replacement(home: Home, database: Database, target: Path) -> tuple[Path | None, str]:
    """Return a file for the place of a database, if there is one, and where its content is from."""
    is_everything = False
    if (file := database.file(home)).is_file():
        copy = target.with_suffix(".damaged")
        shutil.copyfile(file, copy)
        is_everything = salvage(copy, target) and not has_changed_unwritten(home, database)
    is_usable = target.is_file() and is_whole(target, database)
    if is_everything and is_usable:
        return target, "is written anew: all of it could be read"
    if backup := newest_backup(home, database):
        target.unlink(missing_ok=True)
        shutil.copyfile(backup, target)
        if database is ZENML:
            _keep_from_cache(home, target)
        return target, f"is the copy of {time_of(backup)} now"
    if is_usable:
        return target, "holds what could be read of it"
    return None, "is made anew: nothing of it could be read, and there was no copy"


def _keep_from_cache(home: Home, file: Path) -> None:
    """Keep ZenML from giving out results whose folders are gone: a copy may know runs that were removed after it."""
    now = datetime.now(UTC).replace(tzinfo=None).isoformat(" ")
    try:
        with opened(file, "rw") as database:
            gone = [(now, step) for step, place in database.execute(_RESULTS) if _is_gone(home, place)]
            database.execute("BEGIN IMMEDIATE")
            database.executemany("UPDATE step_run SET cache_expires_at = ? WHERE id = ?", gone)
            database.execute("COMMIT")
    except sqlite3.OperationalError as cause:  # a copy that another version of ZenML has made is better than none
        logger.warning("%s may give out results that are gone: %s", ZENML.file(home), cause)


def _is_gone(home: Home, place: str) -> bool:
    return Path(place).is_relative_to(home.root) and not Path(place).exists()


def _keep(home: Home, file: Path) -> Path | None:
    """Put what there is of a database into `damaged/`, and remove its journals, which are not the next one's."""
    folder = home.root / "damaged" / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
    there = [each for end in ("", *JOURNALS) if (each := file.with_name(file.name + end)).is_file()]
    if not there:
        return None
    folder.mkdir(parents=True)
    for each in there:
        link_or_copy(each, folder / each.name)
        if each != file:
            each.unlink()
    return folder


def _unknown_runs(home: Home) -> Iterator[str]:
    """Yield a sentence about the runs that left a summary, and that ZenML's database does not know (any more)."""
    runs = {file.stem for file in (home.root / "runs").glob("*.json") if file.name.count(".") == 1}
    known: set[str] = set()
    if ZENML.file(home).is_file():
        with opened(ZENML.file(home), seconds=5) as database:
            known = {run for (run,) in database.execute("SELECT id FROM pipeline_run")}
    if lost := sorted(run for run in runs if run.replace("-", "") not in known):
        yield f" It does not know {len(lost)} of {len(runs)} runs that left a summary in runs/: {', '.join(lost[:5])}"
        yield ", ..." if len(lost) > 5 else "."


def _refuse_while_used(home: Home) -> None:
    if alive := living_notes(home):
        names = ", ".join(f"{note.run_name} (process {note.pid})" for note in alive)
        raise StorageError(f"{names} goes on", where=str(home.root), fix="wait for it to end, or end it")


def _busy(home: Home, holder: str) -> StorageError:
    return StorageError(f"{holder} makes or restores databases", where=str(home.root), fix="wait for it to end")
