"""The program that an interrupted process becomes: it says so, writes down that the run has ended, and exits with 130,
143 or 129, by the signal.

    python -P -m mlops.runtime.interrupted FACTS

FACTS are the fields of `mlops.runtime.signals.Facts`, as JSON. Of the interrupted process there is still its id, its
environment variables and its children.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil

from mlops.display.terminal import errors, styled
from mlops.home.folder import Home, find_home
from mlops.home.last_calls import forget_calls
from mlops.home.processes import Note, own_note
from mlops.runtime.last_words import keep_trace, write_summary
from mlops.runtime.signals import SIGNALS, Facts
from mlops.runtime.taken_over import in_kubernetes
from mlops.summary.file import end_summary, failed, summary_since
from mlops.summary.result import cut_short
from mlops.summary.summary import Summary
from rlft.errors import RlftError, TrackerError

INTERRUPTED: Final = "interrupted"
_NEXT_POD = "the next pod of this job goes on from here; if there is none, `rlft resume` does in three minutes"
_CHILDREN_SECONDS = 2.0  # that children have to end after SIGTERM, and after SIGKILL


def main(facts: Facts) -> None:
    """Say what there is to go on with, end the children, write down the end of the run, and copy the databases.

    Each is done whatever fails before. Signals are ignored until the first two are; then another one ends the process
    at once. So does the time limit, if there is one: what could not be written down until then, a resume finds out.
    """
    if facts.limit is not None:
        _end_at(facts.limit, facts.exit_code)
    home, note, left, goes_on = None, None, None, False
    try:
        home = find_home()
        note, left = own_note(home), summary_since(home, facts.started)
        ended = note is None and left.pipeline_run_id is not None
        goes_on = facts.limit is not None and in_kubernetes() and note is not None
        state = _NEXT_POD if goes_on else _state(home, note, left if ended else None)
    except RlftError as error:  # a working directory that was removed
        ended, state = False, f"what there is to go on with could not be read: {error}"
    except Exception as error:  # a disk that is gone
        ended, state = False, f"what there is to go on with could not be read: {type(error).__name__}: {error}"
    what = styled("interrupted", "yellow")
    if facts.death:
        what = styled(f"died: {facts.death}", "red")
    _say(what, f"; {state}")
    _end_children()
    for number in SIGNALS:
        signal.signal(number, lambda *_: os._exit(facts.exit_code))
    if home is not None and left is not None and not goes_on:
        _write_down(home, note, left, facts, ended=ended)


def _end_at(when: float, code: int) -> None:
    """End the process at a time, in seconds since the epoch."""
    timer = threading.Timer(max(0.0, when - time.time()), os._exit, [code])
    timer.daemon = True
    timer.start()


def _say(*what: Any) -> None:
    """Print to stderr if somebody still reads it: the same Ctrl-C ends a `tee` that does."""
    with suppress(OSError, SystemExit):  # rich makes SystemExit of a broken pipe
        if errors.is_terminal:  # a progress bar has left its line and no cursor
            errors.show_cursor()
            errors.print()
        errors.print(*what, sep="", soft_wrap=True, highlight=False)


def _write_down(home: Home, note: Note | None, left: Summary, facts: Facts, *, ended: bool) -> None:
    """Write the summary where it was asked for, and the end of the run into ZenML and MLflow."""
    try:
        if not ended:
            seconds, why = time.time() - facts.started, facts.death or INTERRUPTED
            status = "failed" if facts.death else INTERRUPTED
            if left.pipeline_run_id is not None:
                if not facts.death:
                    forget_calls(home, left.pipeline_run_id)
                end_summary(home, left.pipeline_run_id, why, seconds, status=status)
            left = failed(left, why, seconds, status=status)
        if facts.summary:
            write_summary(Path(facts.summary), left)
        if run := note.run_id if note else facts.run_name:
            said = cut_short(facts.death or INTERRUPTED, note.way_on) if note else ""
            _settle(home, run, left, facts.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI"), said, ended=ended)
    except Exception as error:
        trace = keep_trace(error)
        _say(f"{type(error).__name__}: the stores could not be told ({trace}); rlft doctor tries again")


def _state(home: Home, note: Note | None, summary: Summary | None) -> str:
    """Return what there is to go on with; `summary` is that of a run that had ended before the interrupt."""
    if note is not None:
        return f"{note.way_on} from here"
    if summary is not None:
        return f"the run had ended, and its summary is {home.summary_file(str(summary.pipeline_run_id))}"
    return "no run was going on in this process"


def _end_children() -> None:
    """End child processes, such as programs in sandboxes or MLflow's server: SIGTERM first, then SIGKILL.

    Ray takes longer than that to end by itself, so what it leaves is removed here: its token and its logs.
    """
    children = psutil.Process().children(recursive=True)
    for child in children:
        _send(child, signal.SIGTERM)
    deaf = psutil.wait_procs(children, timeout=_CHILDREN_SECONDS)[1]
    for child in deaf:
        _send(child, signal.SIGKILL)
    psutil.wait_procs(deaf, timeout=_CHILDREN_SECONDS)
    if children:
        from rlft.distributed.local_cluster import remove_folders  # 0.2 s, after what must be done at once

        with suppress(OSError):  # no place for temporary files
            remove_folders()


def _send(child: psutil.Process, number: signal.Signals) -> None:
    try:
        child.send_signal(number)
    except psutil.NoSuchProcess:
        return


def _settle(home: Home, run: str, summary: Summary, tracking_uri: str | None, said: str, *, ended: bool) -> None:
    """Tell ZenML and MLflow that the run has ended, and what is `said` of it (Markdown).

    One that had ended before the interrupt has told MLflow itself.
    """
    from mlops.runs.finding import end_run

    end_run(home, run, completed=ended and summary.status not in ("failed", INTERRUPTED))
    if not ended and summary.mlflow_run_id is not None and tracking_uri is not None:
        from mlops.tracking.answers import answering
        from mlops.tracking.run import end_killed

        try:
            with answering(tracking_uri):
                end_killed(tracking_uri, summary.mlflow_run_id, said, summary.status)
        except TrackerError as cause:
            _say(f"MLflow takes the run for running until it is resumed: {cause.what}")


if __name__ == "__main__":
    try:
        main(Facts(**json.loads(sys.argv[1])))
    finally:
        os._exit(Facts(**json.loads(sys.argv[1])).exit_code)
