"""Runs that were killed, which are marked as failed so that they can be resumed, and databases that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from mlops.doctor.finding import Finding
from mlops.doctor.way_on import way_on
from mlops.home.databases import all_runs_ended
from mlops.home.faults import find_faults
from mlops.home.folder import Home
from mlops.home.processes import Note, dead_notes, forget_process, resume_command
from mlops.runs.last_sign import last_sign
from mlops.stacks.stack import connect
from mlops.summary.file import end_summary, read_summary
from mlops.summary.summary import Summary


def check_runs(home: Home) -> Iterator[Finding]:
    """Mark runs that were killed as failed, so that they can be resumed."""
    if not (home.root / "zenml").is_dir():
        yield Finding("ok", f"no runs yet in {home.root}")
        return
    if faults := find_faults(home):
        yield from (Finding("broken", f"{fault.where}: {fault.what}", fault.fix) for fault in faults)
        return
    if all_runs_ended(home):
        # ZenML was told that they have ended, and whoever told it may have been killed before it changed the summary.
        dead = dead_notes(home)
        left = [note for note in dead if _ended(home, note)]
        for note in left:
            forget_process(home, note.run_id)
            what = f"{note.run_name} was killed, and its summary says so now"
            yield Finding("warning", what, resume_command(note.run_name, note.stack))
            if not note.stack:  # else its MLflow is told by the resume
                yield from _end_in_mlflow(note.run_name, connect(home, None), read_summary(home, note.run_id))
        if not left:
            yield Finding("ok", "no run was killed midway")
        return
    uri = connect(home, None)
    from mlops.runs.finding import killed_runs, mark_failed, name_of

    killed = killed_runs(home)
    for run in killed:
        summary, name = read_summary(home, str(run.id)), name_of(run)
        last = mark_failed(home, run)
        until = "" if last is None else f". Its time counts until its last sign of life, {last:%Y-%m-%d %H:%M:%S} UTC"
        what = f"{name} was killed; it is marked as failed now{until}"
        yield Finding("warning", what, way_on(home, str(run.id), name) or "nothing: this was finished since")
        yield from _end_in_mlflow(name, uri, summary)
    if not killed:
        yield Finding("ok", "no run was killed midway")


def _ended(home: Home, note: Note) -> bool:
    """Change a summary that still says `running`; returns whether it did."""
    last = last_sign(home, note.run_id, note.run_name)
    seconds = None if last is None else max(0.0, last.timestamp() - note.started)
    return end_summary(home, note.run_id, "the process was killed", seconds)


def _end_in_mlflow(name: str, uri: str, summary: Summary | None) -> Iterator[Finding]:
    """Tell MLflow that a killed run has ended; yields a finding only where that fails."""
    if summary is None or (tracked := summary.mlflow_run_id) is None:
        return
    from mlops.summary.result import cut_short
    from mlops.tracking.run import end_killed

    said = cut_short(summary.error or "the process was killed", f"`rlft resume {quote(name)}` goes on")
    try:
        end_killed(uri, tracked, said)
    except Exception as cause:  # whatever MLflow or a driver throws
        yield Finding("warning", f"MLflow takes {name} for running: {cause}", "resume it")
