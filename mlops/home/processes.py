"""Tells which runs of a home go on, by notes of their processes, and keeps two processes from running the same one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote

import psutil

from mlops.home.folder import Home
from mlops.home.locks import locked
from rlft.errors import RlftError
from rlft.files import write_file

_STARTING_SECONDS = 60  # so long a run without a note of its process may be starting


class NameHeldError(RlftError):
    """Another process of the home holds the name of a run."""


@dataclass(frozen=True, slots=True)
class Note:
    """A run and its process; `started` (seconds since the epoch) tells that from a later process with the same id.

    `resumes` says whether `rlft resume` goes on with it; an evaluation or a replay is given again instead. `stack` is
    the name of the stack that it is on, if it is on one.
    """

    run_id: str
    run_name: str
    pid: int
    started: float
    resumes: bool = True
    stack: str = ""

    @property
    def way_on(self) -> str:
        """How a person goes on with the run if its process ends."""
        if self.resumes:
            return f"`{resume_command(self.run_name, self.stack)}` goes on"
        return "giving the same command again goes on"

    @property
    def is_alive(self) -> bool:
        """Whether the process still exists."""
        return is_process(self.pid, self.started)


def is_process(pid: int, started: float) -> bool:
    """Return whether the process with this id still exists that began then, in seconds since the epoch."""
    try:
        return abs(psutil.Process(pid).create_time() - started) < 1
    except psutil.Error:
        return False


def resume_command(name: str, stack: str | None) -> str:
    """Return the command that goes on with the run of this name."""
    return f"rlft resume {quote(name)}" + (f" --stack {quote(stack)}" if stack else "")


def with_command(said: str, resume: str | None) -> str:
    """Return an error's text with the command that goes on with its run in place of the bare `rlft resume`.

    What `rlft` raises does not know the run's name, and a person who reads it has to copy the command.
    """
    return said.replace("`rlft resume`", f"`{resume}`") if resume else said


def note_process(home: Home, run_id: str, run_name: str, *, resumes: bool = True, stack: str = "") -> None:
    """Write a note of this process into the home, so that a later one can tell whether the run is alive."""
    process = psutil.Process()
    note = Note(run_id, run_name, process.pid, process.create_time(), resumes, stack)
    write_file(_file(home, run_id), json.dumps(asdict(note)))


def read_note(home: Home, run_id: str) -> Note | None:
    """Return the note of a run; `None` if there is none that can be read."""
    try:
        return Note(**json.loads(_file(home, run_id).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def own_note(home: Home) -> Note | None:
    """Return the note that this process has left, if its run goes on."""
    process = psutil.Process()
    return next((note for note in living_notes(home) if note.pid == process.pid), None)


def living_notes(home: Home) -> list[Note]:
    """Return the notes of runs whose process still exists."""
    return [note for note in _notes(home) if note.is_alive]


def dead_notes(home: Home) -> list[Note]:
    """Return the notes of runs whose process is gone without having removed them."""
    return [note for note in _notes(home) if not note.is_alive]


def goes_on(home: Home, run_id: str, began: datetime) -> bool:
    """Return whether the process of a run still exists. A run without a note counts as starting for a while."""
    note = read_note(home, run_id)
    if note is None:
        return (datetime.now(UTC) - began).total_seconds() < _STARTING_SECONDS
    return note.is_alive


def _notes(home: Home) -> list[Note]:
    notes = (read_note(home, file.name.split(".")[0]) for file in (home.root / "runs").glob("*.process.json"))
    return [note for note in notes if note]


@contextmanager
def claimed(home: Home, name: str, stack: str | None) -> Iterator[None]:
    """Hold the name of a run for this process: between its checks and its note another one could begin the same run.

    `stack` is the one that the run is on: names on different stacks are different. Raises NameHeldError if another
    process of this home holds the name. However the process ends, the kernel releases the lock.
    """
    with _held(home, [stack, name], name):
        yield


@contextmanager
def promised(home: Home, name: str, stack: str | None) -> Iterator[None]:
    """Keep processes of this home that look for a free name from taking this one, which a run is yet to begin under.

    Raises NameHeldError if another process has promised it.
    """
    with _held(home, [stack, name, "promised"], name):
        yield


@contextmanager
def _held(home: Home, what: list[str | None], name: str) -> Iterator[None]:
    key = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]

    def refused(holder: str) -> RlftError:
        fix = "wait for it, or end its process first"
        return NameHeldError(f"{holder} has begun {name} or goes on with it", where="RUN", fix=fix)

    with locked(home.root / "runs" / f"{key}.lock", seconds=0, refused=refused):
        yield


def forget_process(home: Home, run_id: str) -> None:
    """Remove the note of a run that has ended."""
    _file(home, run_id).unlink(missing_ok=True)


def _file(home: Home, run_id: str) -> Path:
    return home.root / "runs" / f"{run_id}.process.json"
