"""Which process does a run: a note beside its summary, from before the first step until that is written."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from pipelines.files import write_file
from pipelines.home import Home


@dataclass(frozen=True, slots=True)
class Note:
    """A run and its process; `started` (seconds since the epoch) tells it from a later one of the same number."""

    run_id: str
    run_name: str
    pid: int
    started: float

    @property
    def is_alive(self) -> bool:
        """Whether the process still exists."""
        try:
            return abs(psutil.Process(self.pid).create_time() - self.started) < 1
        except psutil.Error:
            return False


def note_process(home: Home, run_id: str, run_name: str) -> None:
    """Leave this process's identity, so that a later one can tell whether the run is alive."""
    process = psutil.Process()
    note = Note(run_id, run_name, process.pid, process.create_time())
    write_file(_file(home, run_id), json.dumps(asdict(note)))


def read_note(home: Home, run_id: str) -> Note | None:
    """The note of a run; `None` where there is none that can be read."""
    try:
        return Note(**json.loads(_file(home, run_id).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def own_note(home: Home) -> Note | None:
    """The note that this process left, if its run goes on."""
    process = psutil.Process()
    notes = (read_note(home, file.name.split(".")[0]) for file in (home.root / "runs").glob("*.process.json"))
    return next((note for note in notes if note and note.pid == process.pid and note.is_alive), None)


def forget_process(home: Home, run_id: str) -> None:
    """The run has ended by itself."""
    _file(home, run_id).unlink(missing_ok=True)


def _file(home: Home, run_id: str) -> Path:
    return home.root / "runs" / f"{run_id}.process.json"
