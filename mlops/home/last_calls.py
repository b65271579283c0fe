"""What ran in a process of a home when it ended without a word: a note of each run, which goes when the run ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote

import psutil

from mlops.home.folder import Home
from mlops.home.processes import is_process
from rlft.workers.witness import Noted, read_witness, witnessed

KILLED = "the process was killed"
_SHOWN = 3  # calls that are named


@contextmanager
def calls_witnessed(home: Home, run_id: str, run_name: str) -> Iterator[None]:
    """Note the calls of the environment's code while a run goes on, and forget those of earlier attempts at it."""
    for path in _notes(home):
        with suppress(OSError, ValueError):
            if read_witness(path)[0].get("run_name") == run_name:
                path.unlink()
    process = psutil.Process()
    heading = {"run_id": run_id, "run_name": run_name, "pid": process.pid, "started": process.create_time()}

    def say(noted: Noted) -> None:
        # Not by the terminal's own methods: they may be in use in another thread, which never goes on.
        way_on = (
            f"`rlft resume {quote(run_name)}` goes on as it was; a new `rlft run` with the setting uses what is stored"
        )
        os.write(2, f"\nerror: {sentence_of([noted])}\n{way_on}\n".encode())

    path = _file(home, run_id)
    with suppress(OSError):  # then the file cannot be made either, which is told
        path.parent.mkdir(parents=True, exist_ok=True)
    with witnessed(path, heading, say):
        yield


def forget_calls(home: Home, run_id: str) -> None:
    """Remove the note of a run that was ended from outside: its last calls are not why."""
    _file(home, run_id).unlink(missing_ok=True)


def how_it_ended(home: Home, run: str) -> str:
    """Return how the process of a run, by id or name, ended that has left no outcome.

    It names what the environment's code was doing, if that is known.
    """
    return next((end for run_id, name, end in _ends(home) if run in (run_id, name)), KILLED)


def ends_left(home: Home) -> list[tuple[str, str, str]]:
    """Return how the processes ended that were doing something for an environment's code then: (id, run's name, how).

    A run is among them until it is resumed or deleted.
    """
    return list(_ends(home))


def sentence_of(calls: list[Noted]) -> str:
    """Return that the process ended in these calls, and the setting by which that costs one rollout."""
    shown = "; ".join(map(str, calls[:_SHOWN])) + (f"; and {len(calls) - _SHOWN} more" if len(calls) > _SHOWN else "")
    settings = " and ".join(sorted({call.setting for call in calls}))
    is_sure = any(call.exit_call is not None for call in calls)
    unless = "set" if is_sure else "if it was this code that ended it, set"
    return f"the process ended while {shown}; {unless} {settings} to process, and it costs one rollout"


def _ends(home: Home) -> Iterator[tuple[str, str, str]]:
    """Yield id, name and end of each run whose process is gone and has left calls."""
    for path in _notes(home):
        with suppress(OSError, ValueError, TypeError, KeyError):
            heading, calls = read_witness(path)
            if calls and not is_process(int(heading["pid"]), heading["started"]):
                yield heading["run_id"], heading["run_name"], sentence_of(calls)


def _file(home: Home, run_id: str) -> Path:
    return home.root / "runs" / f"{run_id}.calls"


def _notes(home: Home) -> list[Path]:
    return sorted((home.root / "runs").glob("*.calls"))
