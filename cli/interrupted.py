"""The program that an interrupted command becomes: it says so, writes down that the run has ended, and exits with 130.

    python -P -m cli.interrupted FACTS

FACTS are the fields of `cli.interrupt.Interrupt`, as JSON. Of the interrupted process there is still its id, its
environment variables and its children.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any

import psutil

from cli.guard import keep_trace, write_summary
from cli.interrupt import EXIT_CODE, SIGNALS
from mlops.display.terminal import errors, styled
from mlops.home.folder import Home, find_home
from mlops.home.processes import Note, own_note
from mlops.runs.summary import Summary
from mlops.runs.summary_file import end_summary, failed, summary_since

INTERRUPTED = "interrupted"
_CHILDREN_SECONDS = 2.0  # that children have to end after SIGTERM


def main(facts: dict[str, Any]) -> None:
    """Say what there is to go on with, end the children, and write down the end of the run; each whatever fails before.

    Both signals are ignored until the first two are done; then another signal ends the process at once.
    """
    home = note = left = None
    try:
        home = find_home()
        note, left = own_note(home), summary_since(home, facts["started"])
        ended = note is None and left.pipeline_run_id is not None
        state = _state(home, note, left if ended else None)
    except Exception as error:  # a working directory that was removed, a disk that is gone
        ended, state = False, f"what there is to go on with could not be read: {type(error).__name__}: {error}"
    _say(styled("interrupted", "yellow"), f"; {state}")
    _end_children()
    for number in SIGNALS:
        signal.signal(number, lambda *_: os._exit(EXIT_CODE))
    if home is not None and left is not None:
        _write_down(home, note, left, facts, ended=ended)


def _say(*what: Any) -> None:
    """Print to stderr if somebody still reads it: the same Ctrl-C ends a `tee` that does."""
    with suppress(OSError, SystemExit):  # rich makes SystemExit of a broken pipe
        if errors.is_terminal:  # a progress bar has left its line and no cursor
            errors.show_cursor()
            errors.print()
        errors.print(*what, sep="", soft_wrap=True, highlight=False)


def _write_down(home: Home, note: Note | None, left: Summary, facts: dict[str, Any], *, ended: bool) -> None:
    """Write the summary where it was asked for, and the end of the run into ZenML and MLflow."""
    try:
        if not ended:
            seconds = time.time() - facts["started"]
            if left.pipeline_run_id is not None:
                end_summary(home, left.pipeline_run_id, INTERRUPTED, seconds)
            left = failed(left, INTERRUPTED, seconds)
        if facts["summary"]:
            write_summary(Path(facts["summary"]), left)
        if run := note.run_id if note else facts["run_name"]:
            _settle(home, run, left, ended=ended)
    except Exception as error:
        trace = keep_trace(error)
        _say(f"{type(error).__name__}: the stores could not be told ({trace}); rlft doctor tries again")


def _state(home: Home, note: Note | None, summary: Summary | None) -> str:
    """Return what there is to go on with; `summary` is that of a run that had ended before the interrupt."""
    if note is not None:
        return f"`rlft resume {quote(note.run_name)}` goes on from here"
    if summary is not None:
        return f"the run had ended, and its summary is {home.summary_file(str(summary.pipeline_run_id))}"
    return "no run was going on in this process"


def _end_children() -> None:
    """End child processes, such as programs in sandboxes or MLflow's server: SIGTERM first, then SIGKILL."""
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


def _settle(home: Home, run: str, summary: Summary, *, ended: bool) -> None:
    """Tell ZenML and MLflow that the run has ended. One that had ended before the interrupt has told MLflow itself."""
    from mlops.runs.runs import end_run

    end_run(home, run, completed=ended and summary.status != "failed")
    if not ended and summary.mlflow_run_id is not None:
        from mlops.tracking.run import end_killed

        end_killed(os.environ["MLFLOW_TRACKING_URI"], summary.mlflow_run_id)


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    finally:
        os._exit(EXIT_CODE)
