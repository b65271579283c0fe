"""Removes runs from a home: from ZenML, from MLflow, and their files.

What is begun is noted in `removing.json`. Then the rows go, which say that something is there, and the files last. If a
removal is cut short, the next one ends what is noted, so that nothing is left that is named and not there.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from mlops.home.databases import DATABASES, ZENML, opened
from mlops.home.folder import REMOVING, Home
from mlops.home.locks import removal_lock
from mlops.home.processes import claimed, living_notes
from mlops.removal.note import Note, unfinished_removal
from mlops.removal.plan import Plan, keys_of, make_plan, own_files, registered_places, within
from mlops.removal.rows import give_back, hide_from_cache, remove_from_mlflow, remove_from_zenml
from mlops.runs.listed import ListedRun
from mlops.runs.listing import list_runs
from mlops.runs.store import RUN_FILE
from mlops.stored.verification import seal_file
from rlft.errors import RlftError, StorageError

logger = logging.getLogger(__name__)
SETTLE_SECONDS = 3.0
"""Seconds that a run which has just taken a result from the cache may need to note that it uses it."""
_WORTH_IT = 0.25  # a database is made smaller when so much of its file is empty


def remove_runs(home: Home, plan: Plan, *, settle: float = SETTLE_SECONDS) -> Plan:
    """Remove the runs of a plan, and what an earlier removal has left undone; returns what was removed.

    All is looked at once more before: a run that has begun since, or that another process goes on with, is kept. Raises
    StorageError if another process removes runs of this home, or if a database or file cannot be changed.
    """
    try:
        with removal_lock(home), ExitStack() as held:
            left = unfinished_removal(home)
            asked = [*_left_to_remove(home, left), *plan.runs]
            free, taken = _claim(home, asked, held)
            again = make_plan(home, free, resumable_too=True)  # the plan has left out those that shall stay
            again.kept = [*plan.kept, *taken, *again.kept]
            if again.runs:
                before = _database_bytes(home)
                _begin(home, again.runs, settle)
                again.bytes += max(0, before - _database_bytes(home))
            return again
    except (sqlite3.Error, OSError) as cause:
        raise StorageError(
            f"the removal was cut short: {cause}",
            where=str(home.root),
            fix="mend this, or wait for who uses the database; then `rlft prune` ends the removal",
        ) from cause


def _left_to_remove(home: Home, left: Note | None) -> list[ListedRun]:
    """End a removal that was cut short, and return the runs that it had not come to, and which nobody resumed since.

    ZenML's rows go in one transaction: where they are there still, nothing was removed.
    """
    if left is None:
        return []
    give_back(home, left)
    there = [run for run in list_runs(home).runs if set(keys_of([run])) & set(left.keys)]
    if left.keys and not there:
        _remove(home, left)
    (home.root / REMOVING).unlink(missing_ok=True)
    return [run for run in there if set(keys_of([run])) <= set(left.keys)]


def put_back(home: Home) -> bool:
    """Let the cache give again what a removal that was killed has hidden; returns whether nothing else is left of it.

    Raises RlftError if a removal goes on, or its note cannot be read, and sqlite3.Error.
    """
    with removal_lock(home):
        left = unfinished_removal(home)
        if left is not None:
            give_back(home, left)
        if left is None or left.keys:
            return left is None
        (home.root / REMOVING).unlink()
        return True


def _claim(
    home: Home, asked: Sequence[ListedRun], held: ExitStack
) -> tuple[list[ListedRun], list[tuple[ListedRun, str]]]:
    """Hold the names of runs, so that none is resumed meanwhile; returns them as they are now, and the others."""
    free: list[ListedRun] = []
    taken: list[tuple[ListedRun, str]] = []
    for name, run in {run.name: run for run in asked}.items():
        try:
            held.enter_context(claimed(home, name, None))
            free.append(run)
        except RlftError as other:
            taken.append((run, other.what))
    names = {run.name for run in free}
    return [run for run in list_runs(home).runs if run.name in names], taken


def _begin(home: Home, runs: Sequence[ListedRun], settle: float) -> None:
    """Hide the runs from the cache, wait `settle` seconds, then remove one after the other: no lock is held for long.

    If that fails, the cache gives again what is left.
    """
    hidden = note = hide_from_cache(home, keys_of(runs))
    try:
        time.sleep(settle)
        for run in runs:
            files = [str(file.relative_to(home.root)) for file in own_files(home, run)]
            own = Note(keys_of([run]), run.name, list(run.mlflow_runs), files)
            note = replace(own, hidden=hidden.hidden, hidden_at=hidden.hidden_at)
            note.write(home)
            _remove(home, note)
    except BaseException:  # Ctrl-C, too; after a kill the next removal or `rlft doctor` does it
        give_back(home, hidden)
        if note is hidden:
            (home.root / REMOVING).unlink(missing_ok=True)
        raise
    (home.root / REMOVING).unlink(missing_ok=True)
    if not living_notes(home):  # a run would wait for it
        for file in _databases(home):
            _shrink(file)


def _database_bytes(home: Home) -> int:
    return sum(file.stat().st_size for file in _databases(home))


def _databases(home: Home) -> list[Path]:
    return [file for file in (database.file(home) for database in DATABASES) if file.is_file()]


def _remove(home: Home, note: Note) -> None:
    """Remove what a note names; all of it can be done twice."""
    remove_from_zenml(home, note)
    (home.root / "runs" / note.name / RUN_FILE).unlink(missing_ok=True)
    remove_from_mlflow(home, note)
    with opened(ZENML.file(home)) as database:
        used = {uri for (uri,) in database.execute("SELECT uri FROM artifact_version")}
    registered = registered_places(home)
    for name in note.paths:
        place = home.root / name
        kept = any(place.is_relative_to(other) or other.is_relative_to(place) for other in registered)
        if str(place) not in used and not kept:
            _remove_path(home, place)
            if (seal := seal_file(home, place)) is not None:
                _remove_path(home, seal)


def _remove_path(home: Home, path: Path) -> None:
    """Remove a file or folder of the home; links are not followed, and what lies elsewhere is never removed."""
    found, _ = within(home, [str(path)])
    for path in found:
        if path.is_dir():
            shutil.rmtree(path)
            if not any(path.parent.iterdir()) and path.parent != home.root:
                path.parent.rmdir()  # that of the step's call, which has an id of its own
        else:
            path.unlink(missing_ok=True)


def _shrink(file: Path) -> None:
    """Give the empty part of a database back to the disk, where it is large and there is room for the copy."""
    try:
        with opened(file, "rw") as database:
            pages, empty = (
                database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count")
            )
            if empty >= _WORTH_IT * pages and shutil.disk_usage(file.parent).free > 2 * file.stat().st_size:
                database.execute("VACUUM")
    except sqlite3.Error as cause:  # another process uses it; the room is used again by the next rows
        logger.debug("%s was not made smaller: %s", file, cause)
