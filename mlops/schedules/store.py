"""The schedules of a home, as plain files of `.rlft/schedules/`, each written completely or not at all.

Of each schedule: `NAME.json`, what was applied, which commands write; `NAME.state`, what it has seen, the run that goes
on, and what came of its due times, which whoever holds its lock writes.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from mlops.home.folder import SCHEDULES, Home
from mlops.schedules.reasons import Facts
from mlops.schedules.settings import ScheduleConfig, check_schedule, newest_due
from rlft.errors import RlftError
from rlft.files import make_private, write_file


class Stored(BaseModel):
    """A schedule that was applied in `folder`; due times until `since` are none of its own.

    `cluster` is the name of the ZenML schedule that runs it in a cluster; empty if nothing does.
    """

    content: dict[str, Any]
    folder: Path
    since: datetime
    cluster: str = ""

    @cached_property
    def schedule(self) -> ScheduleConfig:
        """Its settings. Raises ConfigError if another version of rlft has applied it."""
        return check_schedule(self.content, where=f"the schedule {self.name}, as it was applied")

    @property
    def name(self) -> str:
        """The name of the schedule."""
        return self.content["name"]


class Firing(BaseModel):
    """A due time of a schedule and what came of it.

    `reason` and `said` are sentences: why it ran, and what came of it. `codes` are the exit codes of its tries, and
    `status` is that of its run's summary.
    """

    schedule: str
    due: datetime
    state: Literal["running", "finished", "failed", "no_reason"] = "running"
    reason: str = ""
    said: str = ""
    run: str | None = None
    codes: list[int] = []
    status: str | None = None
    ended: datetime | None = None


class State(BaseModel):
    """What a schedule has seen: until when due times were looked at, what was when its last run began, its run, and
    what came of the last due times, the newest first."""

    looked: datetime | None = None
    facts: Facts | None = None
    running: Firing | None = None
    past: list[Firing] = []


def file_of(home: Home, name: str, end: str) -> Path:
    """Return a file of a schedule, by what its name ends with."""
    return home.root / SCHEDULES / f"{name}{end}"


def result_file(home: Home, name: str) -> Path:
    """Return where the run of a schedule leaves its summary."""
    return home.root / SCHEDULES / "results" / f"{name}.json"


def keep(home: Home, stored: Stored) -> None:
    """Store a schedule, or replace the one of its name. Raises OSError."""
    home.make()
    make_private(home.root / SCHEDULES)
    write_file(file_of(home, stored.name, ".json"), stored.model_dump_json(indent=1))


def find(home: Home, name: str) -> Stored:
    """Return a schedule by its name. Raises RlftError if there is none."""
    if name not in (names := names_of(home)):
        fix = f"there are: {', '.join(names)}" if names else "`rlft schedule apply FILE` makes one"
        raise RlftError(f"there is no schedule {name!r:.80}", where="NAME", fix=fix)
    return Stored.model_validate_json(file_of(home, name, ".json").read_bytes())


def names_of(home: Home) -> list[str]:
    """Return the names of all schedules."""
    return sorted(file.stem for file in (home.root / SCHEDULES).glob("*.json"))


def all_schedules(home: Home) -> list[Stored]:
    """Return all schedules by name."""
    return [find(home, name) for name in names_of(home)]


def state_of(home: Home, name: str) -> State:
    """Return what a schedule has seen."""
    file = file_of(home, name, ".state")
    return State.model_validate_json(file.read_bytes()) if file.exists() else State()


def keep_state(home: Home, name: str, state: State) -> None:
    """Note what a schedule has seen, unless it was deleted meanwhile."""
    if file_of(home, name, ".json").is_file():
        write_file(file_of(home, name, ".state"), state.model_dump_json())


def due_now(stored: Stored, state: State, now: datetime) -> datetime | None:
    """Return the newest due time that nothing has looked at; `None` without any, or if a cluster has the schedule."""
    if stored.cluster:
        return None
    return newest_due(stored.schedule.trigger, max(stored.since, state.looked or stored.since), now)


def remove(home: Home, name: str) -> None:
    """Remove a schedule with all that is noted of it. Its runs stay."""
    for file in (file_of(home, name, ".json"), file_of(home, name, ".state"), result_file(home, name)):
        file.unlink(missing_ok=True)


@contextmanager
def locked(home: Home, name: str) -> Iterator[int | None]:
    """Hold the lock of a schedule, and yield its descriptor; `None` if another process has it.

    What looks after a schedule hands it on to the run, so that the kernel holds it until both have ended.
    """
    descriptor = os.open(file_of(home, name, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    taken = None
    try:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken = descriptor
        yield taken
    finally:
        os.close(descriptor)  # and no unlock, which would release it for the run as well


def is_running(home: Home, name: str) -> bool:
    """Return whether a run of a schedule goes on, or something looks after one."""
    with locked(home, name) as lock:
        return lock is None
