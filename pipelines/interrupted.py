"""What an interrupted command becomes: one sentence on the terminal, the end of its run written down, exit code 130.

    python -P -m pipelines.interrupted FACTS

FACTS are those of `pipelines.interrupt.Interrupt`, as JSON. The process is the interrupted one: it has its id, its
environment and its children, and nothing else of it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil

from pipelines.guard import errors, failed, keep_trace, summary_since, write_summary
from pipelines.home import Home, find_home
from pipelines.interrupt import EXIT_CODE, SIGNALS
from pipelines.notes import Note, own_note
from pipelines.terminal import styled

_CHILDREN_SECONDS = 2.0


def main(facts: dict[str, Any]) -> None:
    """Say what is true, end the children, and write it down. A second signal ends it at once: all is resumable."""
    for number in SIGNALS:
        signal.signal(number, lambda *_: os._exit(EXIT_CODE))
    home = find_home()
    note, left = own_note(home), summary_since(home, facts["started"])
    ended = note is None and left["pipeline_run_id"] is not None
    if errors.is_terminal:  # a progress bar has left its line and no cursor
        errors.show_cursor()
        errors.print()
    state = _state(home, note, left if ended else None)
    errors.print(styled("interrupted", "yellow"), f"; {state}", sep="", soft_wrap=True, highlight=False)
    _end_children()
    if facts["summary"]:
        write_summary(Path(facts["summary"]), left if ended else failed(left, "interrupted"))
    run = note.run_id if note else facts["run_name"]
    if run is None:
        return
    try:
        _settle(home, run, left, ended=ended)
    except Exception as error:
        trace = keep_trace(error)
        errors.print(f"{type(error).__name__}: the stores could not be told ({trace}); rlft doctor tries again")


def _state(home: Home, note: Note | None, summary: dict[str, Any] | None) -> str:
    """What there is to go on with."""
    if note is not None:
        return f"`rlft resume {note.run_name}` goes on from here"
    if summary is not None:
        return f"the run had ended, and its summary is {home.summary_file(summary['pipeline_run_id'])}"
    return "no run was going on in this process"


def _end_children() -> None:
    """Programs in sandboxes, a server of MLflow: asked first, then killed."""
    children = psutil.Process().children(recursive=True)
    for child in children:
        _send(child, signal.SIGTERM)
    for child in psutil.wait_procs(children, timeout=_CHILDREN_SECONDS)[1]:
        _send(child, signal.SIGKILL)


def _send(child: psutil.Process, number: signal.Signals) -> None:
    try:
        child.send_signal(number)
    except psutil.NoSuchProcess:
        return


def _settle(home: Home, run: str, summary: dict[str, Any], *, ended: bool) -> None:
    """Tell ZenML and MLflow that the run goes on no more. A run that had ended has told MLflow itself."""
    from pipelines.runs import end_run

    end_run(home, run, completed=ended and summary["status"] != "failed")
    if not ended and summary["mlflow_run_id"] is not None:
        from pipelines.tracking import end_killed

        end_killed(os.environ["MLFLOW_TRACKING_URI"], summary["mlflow_run_id"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
    sys.stderr.flush()
    os._exit(EXIT_CODE)
