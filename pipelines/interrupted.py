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

_CHILDREN_SECONDS = 2.0


def main(facts: dict[str, Any]) -> None:
    """End the children, say what is true, and write it down. A second signal ends it at once: all is resumable."""
    for number in SIGNALS:
        signal.signal(number, lambda *_: os._exit(EXIT_CODE))
    _end_children()
    home = find_home()
    note, left = own_note(home), summary_since(home, facts["started"])
    if errors.is_terminal:  # a progress bar has left its line and no cursor
        errors.show_cursor()
        errors.print()
    errors.print(f"[yellow]interrupted[/yellow]; {_state(home, note, left)}", soft_wrap=True, highlight=False)
    if facts["summary"]:
        ended = note is None and left["pipeline_run_id"] is not None
        write_summary(Path(facts["summary"]), left if ended else failed(left, "interrupted"))
    run = note.run_id if note else facts["run_name"]
    if run is None:
        return
    try:
        _settle(home, run, left["mlflow_run_id"])
    except Exception as error:
        trace = keep_trace(error)
        errors.print(f"{type(error).__name__}: the stores could not be told ({trace}); rlft doctor tries again")


def _state(home: Home, note: Note | None, left: dict[str, Any]) -> str:
    """What there is to go on with."""
    if note is not None:
        return f"`rlft resume {note.run_name}` goes on from here"
    if left["pipeline_run_id"] is not None:
        return f"the run had ended, and its summary is {home.summary_file(left['pipeline_run_id'])}"
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


def _settle(home: Home, run: str, mlflow_run: str | None) -> None:
    """Tell ZenML and MLflow that the run has ended, which they would take for running."""
    from pipelines.runs import end_run

    end_run(home, run)
    if mlflow_run is not None:
        from pipelines.tracking import end_killed

        end_killed(os.environ["MLFLOW_TRACKING_URI"], mlflow_run)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
    sys.stderr.flush()
    os._exit(EXIT_CODE)
