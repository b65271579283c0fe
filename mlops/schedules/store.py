"""The schedules of a home, in plain files of `.rlft/schedules/`, each written completely or not at all.

Of each schedule: `NAME.json`, what was applied, which commands write; `NAME.state`, what it has seen and the run that
goes on, which whoever holds its lock writes; `NAME.jsonl`, what came of its due times, a line each.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from mlops.home.folder import RESULTS, SCHEDULES, Home
from rlft.errors import ConfigError, RlftError
from rlft.files import make_private, write_file
from rlft.schedule.reasons import Facts
from rlft.schedule.settings import ScheduleConfig, check_schedule
from rlft.schedule.times import newest_due

logger = logging.getLogger(__name__)
KEPT = 1000  # due times of a schedule, of which is noted what came of them
_OTHERS = (0.05, 0.05)  # seconds that others may hold a lock who only look whether it is held


class Stored(BaseModel):
    """A schedule that was applied in `folder`; due times until `since` are none of its own.

    `cluster` is the name of the ZenML schedule that runs it in a cluster; empty if nothing does.
    """

    content: dict[str, Any]
    folder: Path
    since: datetime
    paused: bool = False
    cluster: str = ""

    @cached_property
    def schedule(self) -> ScheduleConfig:
        """Its settings. Raises ConfigError if another version of rlft has applied it."""
        return check_schedule(self.content, where=f"the schedule {self.content.get('name')}, as it was applied")

    @property
    def name(self) -> str:
        """The name of the schedule."""
        return self.schedule.name


class Firing(BaseModel):
    """A due time of a schedule and what came of it.

    `origin` is `clock`, or `person` for `rlft schedule run-now`. `reason` and `said` are sentences: why it ran, and
    what came of it. `codes` are the exit codes of its tries, and `status` is that of its run's summary.
    """

    schedule: str
    due: datetime
    origin: Literal["clock", "person"] = "clock"
    state: Literal["running", "finished", "failed", "no_reason", "skipped", "missed"] = "running"
    reason: str = ""
    said: str = ""
    run: str | None = None
    codes: list[int] = []
    status: str | None = None
    ended: datetime | None = None


class State(BaseModel):
    """What a schedule has seen: the last due time that was looked at, what was when its last run began, and its run."""

    looked: datetime | None = None
    facts: Facts | None = None
    running: Firing | None = None


def folder_of(home: Home) -> Path:
    """Return the folder of all schedules of a home."""
    return home.root / SCHEDULES


def file_of(home: Home, name: str, end: str) -> Path:
    """Return a file of a schedule, by what its name ends with."""
    return folder_of(home) / f"{name}{end}"


def result_file(home: Home, name: str) -> Path:
    """Return where the run of a schedule leaves its summary."""
    return home.root.joinpath(*RESULTS) / f"{name}.json"


def keep(home: Home, stored: Stored) -> None:
    """Store a schedule, or replace the one of its name. Raises OSError."""
    home.make()
    make_private(folder_of(home))
    write_file(file_of(home, stored.name, ".json"), stored.model_dump_json(indent=1))


def find(home: Home, name: str) -> Stored:
    """Return a schedule by its name. Raises RlftError if there is none, and ConfigError if it cannot be read."""
    check_known(home, name)
    file = file_of(home, name, ".json")
    try:
        found = Stored.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as cause:
        fix = f"apply its file again (`rlft schedule apply FILE`), or `rlft schedule delete {name}`"
        raise ConfigError(f"this schedule cannot be read: {cause}", where=str(file), fix=fix) from cause
    assert found.schedule
    return found


def check_known(home: Home, name: str) -> None:
    """Raise RlftError if no schedule has this name."""
    if name not in (names := names_of(home)):
        fix = f"there are: {', '.join(names)}" if names else "`rlft schedule apply FILE` makes one"
        raise RlftError(f"there is no schedule {name!r:.80}", where="NAME", fix=fix)


def names_of(home: Home) -> list[str]:
    """Return the names of all schedules."""
    return sorted(file.stem for file in folder_of(home).glob("*.json"))


def all_schedules(home: Home) -> list[Stored]:
    """Return all schedules by name; one that cannot be read is logged and left out."""
    found = list[Stored]()
    for name in names_of(home):
        try:
            found.append(find(home, name))
        except RlftError as error:
            logger.error("%s", error)
    return found


def state_of(home: Home, name: str) -> State:
    """Return what a schedule has seen. Raises ConfigError if that cannot be read."""
    file = file_of(home, name, ".state")
    try:
        return State.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return State()
    except (OSError, ValidationError) as cause:
        fix = "remove this file: the next due time counts as the first"
        raise ConfigError(f"this cannot be read: {cause}", where=str(file), fix=fix) from cause


def keep_state(home: Home, name: str, state: State) -> None:
    """Note what a schedule has seen, unless it was deleted meanwhile."""
    if file_of(home, name, ".json").is_file():
        write_file(file_of(home, name, ".state"), state.model_dump_json())


def due_now(home: Home, stored: Stored, now: datetime) -> datetime | None:
    """Return the newest due time that nothing has looked at; `None` if there is none."""
    if stored.paused or stored.cluster:
        return None
    return newest_due(stored.schedule.trigger, last_look(home, stored), now)


def last_look(home: Home, stored: Stored) -> datetime:
    """Return until when due times of a schedule were looked at, or are left out."""
    return max(stored.since, state_of(home, stored.name).looked or stored.since)


def note(home: Home, firing: Firing) -> None:
    """Add what came of a due time to the history of its schedule, unless that was deleted meanwhile."""
    if file_of(home, firing.schedule, ".json").is_file():
        found = [*history(home, firing.schedule)[KEPT - 2 :: -1], firing]
        write_file(file_of(home, firing.schedule, ".jsonl"), "".join(f"{each.model_dump_json()}\n" for each in found))


def history(home: Home, name: str) -> list[Firing]:
    """Return what came of the due times of a schedule, the newest first; a line that cannot be read is left out."""
    found = list[Firing]()
    with suppress(FileNotFoundError):
        for line in file_of(home, name, ".jsonl").read_bytes().splitlines():
            with suppress(ValidationError):
                found.append(Firing.model_validate_json(line))
    return found[::-1]


def remove(home: Home, name: str) -> None:
    """Remove a schedule with all that is noted of it. Its runs and its variables stay."""
    for file in (*(file_of(home, name, end) for end in (".json", ".state", ".jsonl")), result_file(home, name)):
        file.unlink(missing_ok=True)


@contextmanager
def locked(home: Home, name: str, end: Literal[".lock", ".run"], *, wait: bool = False) -> Iterator[int | None]:
    """Hold a lock of a schedule, and yield its descriptor; `None` if another process has it, unless this is to wait.

    `.lock` is held by what looks after a schedule. `.run` is inherited by its run, so that the kernel holds it until
    that has ended, however either ends.
    """
    descriptor = os.open(file_of(home, name, end), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor if _is_taken(descriptor, wait) else None
    finally:
        os.close(descriptor)  # and no unlock, which would release it for the run as well


def _is_taken(descriptor: int, wait: bool) -> bool:
    for pause in (*_OTHERS, None):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            if pause is not None:
                time.sleep(pause)
        else:
            return True
    return False


def is_running(home: Home, name: str) -> bool:
    """Return whether a run of a schedule goes on, or something looks after one."""
    with locked(home, name, ".lock") as watch, locked(home, name, ".run") as run:
        return watch is None or run is None
