"""Checks of the home: whether it can be used, how large it is, and runs that were killed, which are marked so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from mlops.doctor.finding import Finding
from mlops.home import databases as faults
from mlops.home.folder import Home
from mlops.home.processes import Note, dead_notes, forget_process
from mlops.stacks.stack import connect
from mlops.summary.file import end_summary, read_summary
from rlft.errors import StorageError


def check_home(home: Home) -> Iterator[Finding]:
    """Yield what is found of the home. On the way runs that were killed are marked as failed."""
    try:
        faults.check_home(home)
    except StorageError as error:
        yield Finding("broken", f"{error.where}: {error.what}", error.fix)
        return
    if not home.note.is_file():
        yield Finding("ok", f"no runs yet in {home.root}")
        return
    yield Finding("ok", f"{_size(home.root) / 2**30:.1f} GiB of runs in {home.root}", "`rlft prune` frees old ones")
    dead = dead_notes(home)
    for note in dead:
        yield from _marked(home, note)
    if not dead:
        yield Finding("ok", "no run was killed midway")


def _marked(home: Home, note: Note) -> Iterator[Finding]:
    """Tell ZenML, MLflow and the summary that a run was killed."""
    how, summary = "the process was killed", read_summary(home, note.run_id)
    if not note.stack:  # else its stores are told by the resume
        uri = connect(home, None)
        from mlops.runs.finding import end_run
        from mlops.summary.result import cut_short
        from mlops.tracking.run import end_killed

        end_run(home, note.run_id, completed=False)
        if summary is not None and summary.mlflow_run_id is not None:
            try:
                end_killed(uri, summary.mlflow_run_id, cut_short(summary.error or how, note.way_on))
            except Exception as cause:  # whatever MLflow or a driver throws
                yield Finding("warning", f"MLflow takes {note.run_name} for running: {cause}", note.way_on)
    end_summary(home, note.run_id, how, None)
    forget_process(home, note.run_id)
    yield Finding("warning", f"{note.run_name} was killed; it is marked as failed now", note.way_on)


def _size(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    files = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
    return sum(file.lstat().st_size for file in files if file.exists())
