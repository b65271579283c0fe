"""The schedules of a home, in `.rlft/schedules/schedules.db`: what was applied, and what was when a run last began.

APScheduler's own stores hold pickled jobs, and its schedulers must not share one. This one is plain SQLite: every
change is one transaction, so that several schedulers, systemd and cron may use it at once, and a kill loses nothing.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlops.home.entries import find_odd_in_schedules
from mlops.home.folder import SCHEDULES, Home
from rlft.errors import ConfigError, RlftError, StorageError
from rlft.files import PARTIAL, make_private
from rlft.schedule.file import check_schedule
from rlft.schedule.reasons import Facts, Looks
from rlft.schedule.settings import ScheduleConfig
from rlft.shortage import shortage_of

logger = logging.getLogger(__name__)
VERSION = 1
APPLY_AGAIN = "move this file away and apply the schedules again; runs, models and results are elsewhere"
_SECONDS = 60.0  # how long another process may hold the store
_TABLES = """
CREATE TABLE schedules (
  name TEXT PRIMARY KEY, content TEXT NOT NULL, folder TEXT NOT NULL, applied TEXT NOT NULL, looked TEXT NOT NULL,
  paused INTEGER NOT NULL DEFAULT 0, cluster TEXT NOT NULL DEFAULT '', facts TEXT
);
CREATE TABLE firings (
  id INTEGER PRIMARY KEY AUTOINCREMENT, schedule TEXT NOT NULL, due TEXT NOT NULL, origin TEXT NOT NULL,
  state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', said TEXT NOT NULL DEFAULT '', tries TEXT NOT NULL DEFAULT '[]',
  watcher TEXT NOT NULL DEFAULT '', not_before TEXT NOT NULL DEFAULT '', ended TEXT NOT NULL DEFAULT '',
  status TEXT NOT NULL DEFAULT '', told TEXT NOT NULL DEFAULT '[]'
);
CREATE UNIQUE INDEX one_for_a_due_time ON firings (schedule, due) WHERE origin = 'clock';
CREATE INDEX unfinished ON firings (ended);
"""


@dataclass(frozen=True, slots=True)
class Stored:
    """A schedule that was applied in `folder`, and when something `looked` last for what is due.

    `cluster` is the name of the ZenML schedule that runs it in a cluster; empty if nothing does.
    """

    schedule: ScheduleConfig
    folder: Path
    applied: datetime
    looked: datetime
    paused: bool = False
    cluster: str = ""

    @property
    def name(self) -> str:
        """The name of the schedule."""
        return self.schedule.name


def folder_of(home: Home) -> Path:
    """Return the folder of all schedules of a home."""
    return home.root / SCHEDULES


def as_text(moment: datetime) -> str:
    """Return a moment as it is stored: in UTC, and in an order that is that of the texts."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


@contextmanager
def opened(home: Home, *, make: bool = True) -> Iterator[sqlite3.Connection]:
    """Open the store for one transaction, which is taken back if an error is raised. Raises StorageError.

    Without `make` a store that is not there is an empty one. Whatever is written, read or removed beside it comes after
    an opening, by which what is odd there is refused.
    """
    folder = folder_of(home)
    file = store_file(home)
    for odd in find_odd_in_schedules(home):
        raise odd
    try:
        if make:
            home.make()
            make_private(folder)
            _make(file)
        with closing(_connected(file if make or file.is_file() else None)) as store:
            yield store
            store.execute("COMMIT")
    except (sqlite3.Error, OSError) as cause:
        what = f"the schedules cannot be read or written: {cause}"
        raise StorageError(what, where=str(file), fix=_way_on(cause)) from cause


def store_file(home: Home) -> Path:
    """Return the file of the store."""
    return folder_of(home) / "schedules.db"


def _way_on(cause: Exception) -> str:
    """Return what a person does about a store that cannot be used, which need not be damaged."""
    shortage, said = shortage_of(cause), str(cause)
    if "locked" in said:
        return "end the process that holds it"
    if shortage == "disk":
        return "make room on its disk; nothing of it is lost"
    is_refused = "unable to open" in said or "disk I/O" in said or isinstance(cause, OSError)
    if shortage == "read-only" or is_refused:
        where = "let this user write this file and its folder, on a disk that is sound and not mounted read-only"
        return f"{where}; nothing of it is lost"
    return APPLY_AGAIN


def _make(file: Path) -> None:
    """Make an empty store where there is none, all at once: a kill leaves no half of one."""
    if file.exists():
        return
    partial = file.with_name(f".{secrets.token_hex(8)}{PARTIAL}")
    try:
        with closing(sqlite3.connect(partial, isolation_level=None)) as store:
            store.execute("BEGIN")
            _lay_out(store)
            store.execute("COMMIT")
        with suppress(FileExistsError):  # another process was first
            os.link(partial, file)
    finally:
        partial.unlink(missing_ok=True)


def _lay_out(store: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";\n"):
        store.execute(statement)
    store.execute(f"PRAGMA user_version = {VERSION}")


def _connected(file: Path | None) -> sqlite3.Connection:
    store = sqlite3.connect(file or ":memory:", timeout=_SECONDS, isolation_level=None)
    try:
        store.row_factory = sqlite3.Row
        store.execute("BEGIN IMMEDIATE")
        if file is None:
            _lay_out(store)
        [version] = store.execute("PRAGMA user_version").fetchone()
        if version == 0:
            raise sqlite3.DatabaseError("it holds no schedules; what it held is lost")
        if version != VERSION:
            raise sqlite3.DatabaseError(f"it is of version {version}, which another rlft has written")
    except BaseException:
        store.close()
        raise
    return store


def apply_schedule(home: Home, content: dict[str, Any], folder: Path, now: datetime) -> Stored:
    """Store a schedule, or replace one of its name, which keeps its runs and what it has seen. Raises RlftError.

    What was due while it had other times stays as it was: nothing before `now` becomes due by this. If its times are
    the same, what is due since something looked last still is. What could not be read of it is forgotten.
    """
    schedule = check_schedule(content, where="the schedule")
    with opened(home) as store:
        before = _readable(store, schedule.name)
        looked = before.looked if before is not None and has_same_times(before.schedule, schedule) else now
        store.execute(
            "INSERT INTO schedules (name, content, folder, applied, looked) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (name) DO UPDATE SET content = excluded.content, folder = excluded.folder, "
            "applied = excluded.applied, looked = excluded.looked",
            (schedule.name, json.dumps(content), str(folder), as_text(now), as_text(looked)),
        )
        return find(store, schedule.name)


def has_same_times(one: ScheduleConfig, other: ScheduleConfig) -> bool:
    """Return whether two schedules are due at the same times by what is written of these."""
    return (one.cron, one.timezone) == (other.cron, other.timezone)


def _readable(store: sqlite3.Connection, name: str) -> Stored | None:
    """Return a schedule if it is there and can be read."""
    row = store.execute("SELECT * FROM schedules WHERE name = ?", (name,)).fetchone()
    try:
        return None if row is None else _stored(row)
    except ConfigError:
        return None


def find(store: sqlite3.Connection, name: str) -> Stored:
    """Return a schedule. Raises RlftError if there is none of this name."""
    row = store.execute("SELECT * FROM schedules WHERE name = ?", (name,)).fetchone()
    if row is None:
        names = [each for (each,) in store.execute("SELECT name FROM schedules ORDER BY name")]
        fix = f"there are: {', '.join(names)}" if names else "`rlft schedule apply FILE` makes one"
        raise RlftError(f"there is no schedule {name!r:.80}", where="NAME", fix=fix)
    return _stored(row)


def find_or_damaged(store: sqlite3.Connection, name: str) -> Stored | None:
    """Return a schedule; `None` for one that is there and cannot be read. Raises RlftError if there is none."""
    try:
        return find(store, name)
    except ConfigError:
        return None


def all_schedules(store: sqlite3.Connection) -> list[Stored]:
    """Return all schedules by name; one that is damaged, or that another version of rlft applied, is logged."""
    found, damaged = _all(store)
    for error in damaged:
        logger.error("%s", error)
    return found


def damaged_schedules(store: sqlite3.Connection) -> list[ConfigError]:
    """Return an error for each schedule that cannot be read."""
    return _all(store)[1]


def _all(store: sqlite3.Connection) -> tuple[list[Stored], list[ConfigError]]:
    found, damaged = list[Stored](), list[ConfigError]()
    for row in store.execute("SELECT * FROM schedules ORDER BY name"):
        try:
            found.append(_stored(row))
        except ConfigError as error:
            damaged.append(error)
    return found, damaged


def set_paused(store: sqlite3.Connection, name: str, paused: bool, now: datetime) -> Stored:
    """Pause or resume a schedule; what was due while it was paused is not missed. Raises RlftError without it."""
    found = find(store, name)
    looked = found.looked if paused else now
    store.execute("UPDATE schedules SET paused = ?, looked = ? WHERE name = ?", (int(paused), as_text(looked), name))
    return find(store, name)


def set_cluster(store: sqlite3.Connection, name: str, cluster: str) -> None:
    """Note the name of the ZenML schedule that runs a schedule; empty if none does any more."""
    store.execute("UPDATE schedules SET cluster = ? WHERE name = ?", (cluster, name))


def remove(store: sqlite3.Connection, name: str) -> None:
    """Remove a schedule with all that is noted of its runs, which stay themselves, also if it cannot be read."""
    store.execute("DELETE FROM schedules WHERE name = ?", (name,))
    store.execute("DELETE FROM firings WHERE schedule = ?", (name,))


def last_facts(store: sqlite3.Connection, name: str) -> Facts | None:
    """Return what was when a schedule's last run began; `None`, with a warning, if that cannot be read any more.

    It is `None` as well if there was no run.
    """
    row = store.execute("SELECT facts FROM schedules WHERE name = ?", (name,)).fetchone()
    if row is None or row["facts"] is None:
        return None
    try:
        return facts_of(json.loads(row["facts"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        logger.warning("what %s had seen when its last run began is damaged: it counts as one without a run", name)
        return None


def keep_facts(store: sqlite3.Connection, name: str, facts: Facts) -> None:
    """Note what is now that a run begins."""
    store.execute("UPDATE schedules SET facts = ? WHERE name = ?", (json.dumps(facts_to_json(facts)), name))


def facts_to_json(facts: Facts) -> dict[str, Any]:
    """Return facts as JSON has them; the fingerprints are one text, as there may be a million."""
    tasks, looks = " ".join(sorted(facts.tasks)), asdict(facts.looks)
    return {"tasks": tasks, "values": dict(facts.values), "score_keys": list(facts.score_keys), "looks": looks}


def facts_of(content: dict[str, Any]) -> Facts:
    """Return facts that were stored."""
    before = content.get("score_key")  # rlft kept the last one alone
    keys = content.get("score_keys", [before] if before else [])
    looks = Looks(**content.get("looks", {}))
    return Facts(frozenset(content["tasks"].split()), content["values"], tuple(keys), looks)


def _stored(row: sqlite3.Row) -> Stored:
    """Return a row as a schedule. Raises ConfigError for one that is damaged, or that another rlft has applied."""
    where = f"the schedule {row['name']}, as it was applied"
    try:
        content = json.loads(row["content"])
        if not isinstance(content, dict):
            raise TypeError("it is no mapping")
        applied, looked = datetime.fromisoformat(row["applied"]), datetime.fromisoformat(row["looked"])
        return Stored(
            check_schedule(content, where=where),
            Path(row["folder"]),
            applied,
            looked,
            bool(row["paused"]),
            row["cluster"],
        )
    except ConfigError as other:
        raise ConfigError(other.what, where=where, fix=_apply_or_delete(row["name"])) from other
    except (ValueError, TypeError) as cause:
        what = f"its row is damaged, and nothing is due by it: {cause}"
        raise ConfigError(what, where=where, fix=_apply_or_delete(row["name"])) from cause


def _apply_or_delete(name: object) -> str:
    return f"apply its file again (`rlft schedule apply FILE`), or `rlft schedule delete {name}`"
