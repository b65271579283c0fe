"""The firings of schedules: each due time that something looked at, and what came of it.

A firing is `due`, `queued` behind another one, `looking` for a reason, `running`, or `waiting` for its next try; it has
ended as `finished`, `failed`, `no_reason`, `skipped` (another run went on, or the schedule was paused), `missed`, or
`cut_short` (a person asked for it, and that process was gone before a run began).
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import psutil

from mlops.home.processes import is_process
from mlops.schedules.store import Stored, as_text
from rlft.schedule.due import find_due

logger = logging.getLogger(__name__)
State = Literal[
    "due", "queued", "looking", "running", "waiting",
    "finished", "failed", "no_reason", "skipped", "missed", "cut_short",
]  # fmt: skip
_APART = timedelta(
    minutes=5
)  # at most so much later may another process have looked, which has not waited for the store
GIVEN_UP = "the command that asked for it ended before a run began, so that none is made"
KEPT = 1000  # firings of a schedule; older ones are forgotten, and their runs stay


@dataclass(frozen=True, slots=True)
class Try:
    """One process of a run: the run's name, when it began, and the exit code once it is known (as shells have it)."""

    run: str
    began: str
    code: int | None = None


@dataclass(frozen=True, slots=True)
class Firing:
    """A due time of a schedule and what came of it.

    `origin` is `clock`, or `person` for `rlft schedule run-now`. `reason` and `said` are sentences: why it ran, and
    what came of it. `status` is that of the run's summary. `told` lists what has been told of.
    """

    id: int
    schedule: str
    due: datetime
    origin: Literal["clock", "person"]
    state: State
    reason: str
    said: str
    tries: tuple[Try, ...]
    watcher: str
    not_before: datetime | None
    ended: datetime | None
    status: str
    told: tuple[str, ...]

    @property
    def is_over(self) -> bool:
        """Whether nothing more follows."""
        return self.ended is not None

    @property
    def is_watched(self) -> bool:
        """Whether the process that looks after it still exists."""
        pid, _, started = self.watcher.partition(" ")
        try:
            return bool(pid) and is_process(int(pid), float(started))
        except (ValueError, OverflowError):  # damaged
            return False

    @property
    def is_given_up(self) -> bool:
        """Whether nobody waits for it any more: a person asked for it by a process that was gone before a run began."""
        is_own = self.watcher == _this_process()
        return self.origin == "person" and not (self.tries or self.is_over or is_own or self.is_watched)

    @property
    def run(self) -> str | None:
        """The name of its run; `None` if none has begun."""
        return self.tries[-1].run if self.tries else None

    def as_json(self) -> dict[str, Any]:
        """Return it as `rlft schedule list --json` prints it."""
        return {
            "id": self.id,
            "schedule": self.schedule,
            "due": self.due.isoformat(timespec="seconds"),
            "origin": self.origin,
            "state": self.state,
            "is_watched": self.is_watched and not self.is_over,
            "reason": self.reason,
            "said": self.said,
            "run": self.run,
            "tries": [{"run": each.run, "began": each.began, "exit_code": each.code} for each in self.tries],
            "ended": self.ended and self.ended.isoformat(timespec="seconds"),
            "status": self.status or None,
            "told": list(self.told),
        }


def claim_due(store: sqlite3.Connection, stored: Stored, now: datetime) -> Firing | None:
    """Note that something looks at what is due now, and return the firing that this makes; `None` if it makes none.

    In one transaction, and a due time has one firing: so of two that look at once one makes it. A look that lies ahead
    was by a wrong clock: what is due now, and is not missed by `grace_minutes`, is due all the same.
    """
    if stored.cluster or now <= stored.looked <= now + _APART:
        return None
    looked = stored.looked
    if looked > now:
        logger.warning("%s was looked at when the clock said %s UTC", stored.name, f"{looked:%Y-%m-%d %H:%M}")
        looked = now - max(timedelta(minutes=stored.schedule.grace_minutes), _APART)
    due = None if stored.paused else find_due(stored.schedule, looked, now)
    store.execute("UPDATE schedules SET looked = ? WHERE name = ?", (as_text(now), stored.name))
    if due is None:
        return None
    if due.verdict == "missed":
        _insert(store, stored.name, due.time, "clock", "missed", said=due.sentence, ended=as_text(now))
        return None
    _forget_old(store, stored.name)
    return _insert(store, stored.name, due.time, "clock", "due", said=due.sentence)


def fire_now(store: sqlite3.Connection, name: str, now: datetime) -> Firing:
    """Make the firing of a person who does not wait for the clock; this process looks after it at once."""
    found = _insert(store, name, now, "person", "due")
    taken = take(store, found.id) if found is not None else None
    assert taken is not None
    return taken


def end_given_up(store: sqlite3.Connection, name: str, now: datetime) -> None:
    """Note that firings are cut short which a person has asked for, and nobody waits for: of a schedule if named."""
    for firing in unfinished(store, name):
        if firing.is_given_up:
            change(store, firing.id, state="cut_short", said=GIVEN_UP, ended=now)


def _insert(
    store: sqlite3.Connection, name: str, due: datetime, origin: str, state: State, said: str = "", ended: str = ""
) -> Firing | None:
    """Return a new firing; `None` if this due time has one already."""
    try:
        done = store.execute(
            "INSERT INTO firings (schedule, due, origin, state, said, ended) VALUES (?, ?, ?, ?, ?, ?)",
            (name, as_text(due), origin, state, said, ended),
        )
    except sqlite3.IntegrityError:
        return None
    assert done.lastrowid is not None
    return read_firing(store, done.lastrowid)


def read_firing(store: sqlite3.Connection, number: int) -> Firing | None:
    """Return a firing by its id; `None` if there is none any more, or if it is damaged."""
    row = store.execute("SELECT * FROM firings WHERE id = ?", (number,)).fetchone()
    return None if row is None else next(_firings([row]), None)


def firings_of(store: sqlite3.Connection, name: str, limit: int = 0) -> list[Firing]:
    """Return the firings of a schedule, the newest first; all of them, or at most `limit`."""
    order = "SELECT * FROM firings WHERE schedule = ? ORDER BY id DESC LIMIT ?"
    return list(_firings(store.execute(order, (name, limit or -1))))


def last_run(store: sqlite3.Connection, name: str) -> Firing | None:
    """Return the newest firing of a schedule that had a run and is over; `None` if there is none."""
    query = "SELECT * FROM firings WHERE schedule = ? AND ended != '' AND tries != '[]' ORDER BY id DESC LIMIT 1"
    row = store.execute(query, (name,)).fetchone()
    return None if row is None else next(_firings([row]), None)


def unfinished(store: sqlite3.Connection, name: str = "", before: int = 0) -> list[Firing]:
    """Return the firings that are not over, the oldest first: of a schedule if it is named, and `before` an id."""
    rows = store.execute("SELECT * FROM firings WHERE ended = '' ORDER BY id")
    return [firing for firing in _firings(rows) if name in ("", firing.schedule) and (not before or firing.id < before)]


def take(store: sqlite3.Connection, number: int) -> Firing | None:
    """Make this process the one that looks after a firing; `None` if it is over, or another process does."""
    firing = read_firing(store, number)
    if firing is None or firing.is_over or (firing.is_watched and firing.watcher != _this_process()):
        return None
    return change(store, number, watcher=_this_process())


def release(store: sqlite3.Connection) -> None:
    """Leave what this process looks after, and is not over, to whoever takes it next."""
    store.execute("UPDATE firings SET watcher = '' WHERE watcher = ? AND ended = ''", (_this_process(),))


def change(store: sqlite3.Connection, number: int, **values: Any) -> Firing | None:
    """Change a firing, and return it; `None` if it is there no more. `tries` and `told` are lists."""
    for name in ("tries", "told"):
        if name in values:
            values[name] = json.dumps([_as_list(each) for each in values[name]])
    for name in ("not_before", "ended"):
        if isinstance(values.get(name), datetime):
            values[name] = as_text(values[name])
    fields = ", ".join(f"{name} = ?" for name in values)
    store.execute(f"UPDATE firings SET {fields} WHERE id = ?", (*values.values(), number))
    return read_firing(store, number)


def _as_list(value: Any) -> Any:
    return [value.run, value.began, value.code] if isinstance(value, Try) else value


def forget_damaged(store: sqlite3.Connection, name: str) -> None:
    """Forget the firings of a schedule that cannot be read."""
    store.executemany(
        "DELETE FROM firings WHERE id = ?", [(row["id"],) for row in _damaged(store) if row["schedule"] == name]
    )


def damaged_firings(store: sqlite3.Connection) -> Counter[str]:
    """Return how many firings cannot be read, by the names of their schedules."""
    return Counter(str(row["schedule"]) for row in _damaged(store))


def _damaged(store: sqlite3.Connection) -> list[sqlite3.Row]:
    return [row for row in store.execute("SELECT * FROM firings").fetchall() if not list(_firings([row], log=False))]


def _firings(rows: Iterable[sqlite3.Row], *, log: bool = True) -> Iterator[Firing]:
    """Yield rows as firings; one that is damaged is left out and logged: it must cost no other schedule its runs."""
    for row in rows:
        try:
            yield _firing(row)
        except (ValueError, TypeError) as cause:
            if log:
                said = "what came of due time %s of schedule %s is damaged, and is left out: %s\n  apply its file again"
                logger.error(said, row["id"], row["schedule"], cause)


def _firing(row: sqlite3.Row) -> Firing:
    given: dict[str, Any] = dict(row)
    for name in ("due", "not_before", "ended"):
        given[name] = datetime.fromisoformat(row[name]) if row[name] else None
    given["tries"] = tuple(Try(*each) for each in json.loads(row["tries"]))
    given["told"] = tuple(json.loads(row["told"]))
    return Firing(**given)


def _this_process() -> str:
    return f"{os.getpid()} {psutil.Process().create_time()}"


def _forget_old(store: sqlite3.Connection, name: str) -> None:
    newest = "SELECT id FROM firings WHERE schedule = ? ORDER BY id DESC LIMIT ?"
    store.execute(
        f"DELETE FROM firings WHERE schedule = ? AND ended != '' AND id NOT IN ({newest})", (name, name, KEPT)
    )
