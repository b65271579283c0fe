"""Writes and reads the summary files of a home's runs, and ends those of runs that were cut off."""

from __future__ import annotations

import json
import os
from contextlib import suppress

from mlops.home.folder import Home
from mlops.summary.summary import Status, Summary
from rlft.errors import FormatVersionError
from rlft.files import write_file
from rlft.formats import KEY, SUMMARY

# A file's time is that of the kernel's last tick, which lies a few milliseconds before that of the clock.
_TICK_SECONDS = 0.02
SUMMARY_ARTIFACT = "summary.json"  # its name among the artifacts of the run in MLflow


def summary_text(summary: Summary) -> str:
    """Return the summary as JSON, in ASCII: an error may quote what a model wrote, which need not be valid Unicode."""
    return json.dumps(summary.model_dump(), indent=1)


def keep_summary(home: Home, summary: Summary) -> None:
    """Write the summary of a run to its home. Raises OSError."""
    assert summary.pipeline_run_id is not None, "only a run that has begun is kept"
    write_file(home.summary_file(summary.pipeline_run_id), summary_text(summary))


def read_summary(home: Home, run_id: str) -> Summary | None:
    """Return the summary of a run; `None` if there is none that can be read.

    Raises FormatVersionError for a format that is not read.
    """
    file = home.summary_file(run_id)
    try:
        return summary_of_text(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeError):
        return None


def summary_of_text(text: str, where: str) -> Summary | None:
    """Return the summary in a JSON text that lies at `where`; `None` if that cannot be read.

    Raises FormatVersionError for a format that is not read.
    """
    try:
        stored = json.loads(text)
        if isinstance(stored, dict):
            stored[KEY] = max(SUMMARY.check(stored.get(KEY), where=where), 1)  # with what it lacks it is of version 1
        return Summary.model_validate(stored)
    except ValueError:  # pydantic's and json's are both of them
        return None


def end_summary(
    home: Home, run_id: str, reason: str, seconds: float | None = None, *, status: Status = "failed"
) -> bool:
    """Change a summary that still says `running`: the run ended for this reason, after so many seconds if known.

    One that was damaged is written anew, with nothing measured. Returns whether there was something to change.
    Raises FormatVersionError.
    """
    if not home.summary_file(run_id).is_file():
        return False
    left = read_summary(home, run_id) or Summary(status="running")
    if left.status != "running":
        return False
    keep_summary(home, failed(left.model_copy(update={"pipeline_run_id": run_id}), reason, seconds, status=status))
    return True


def summary_since(home: Home, started: float) -> Summary:
    """Return the summary of the newest run of this process; an empty, failed one if there is none since `started`.

    `started` is in seconds since the epoch.
    """
    newest, when = Summary(status="failed"), started - _TICK_SECONDS
    for file in (home.root / "runs").glob("*.json"):
        with suppress(OSError, FormatVersionError):  # another process has removed it, or it is another rlft's
            # `ID.json` is a summary; `ID.process.json` and `ID.missed.json` are not.
            if file.name.count(".") == 1 and (changed := file.stat().st_mtime) >= when:
                found = read_summary(home, file.stem)
                if found is not None and found.process == os.getpid():
                    newest, when = found, changed
    return newest


def failed(summary: Summary, reason: str, seconds: float | None = None, *, status: Status = "failed") -> Summary:
    """Return the summary as that of a run that failed or was `interrupted` for this reason, after so many seconds if
    known."""
    spent = summary.seconds if seconds is None else summary.seconds.model_copy(update={"total": seconds})
    return summary.model_copy(update={"status": status, "error": reason, "seconds": spent})
