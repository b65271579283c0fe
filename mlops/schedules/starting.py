"""The commands that a scheduled run is: `rlft run`, or `rlft resume` for a run that had begun."""

from __future__ import annotations

import os
import sys
from datetime import UTC
from pathlib import Path

from mlops.clone import PROJECT
from mlops.home.folder import LOGS, Home
from mlops.runs.labels import LONGEST_NOTE
from mlops.schedules.firings import KEPT, Firing
from mlops.schedules.store import Stored, folder_of
from rlft.schedule.file import overrides_of


def rlft_command(*words: str) -> list[str]:
    """Return a command of rlft. With -P nothing is imported from the working directory before rlft itself."""
    return [sys.executable, "-P", "-m", "cli", *words]


def environment(home: Home) -> dict[str, str]:
    """Return the environment of such a command: this process's own, with rlft importable and its home named."""
    path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "RLFT_HOME": str(home.root)}


def run_command(stored: Stored, firing: Firing, run: str, summary: Path) -> list[str]:
    """Return the command that begins a run of this name."""
    due = f"{firing.due.astimezone(stored.schedule.zone):%Y-%m-%d %H:%M %Z}"
    note = f"Schedule {stored.name}, due {due}: {firing.reason}."[:LONGEST_NOTE]
    changes = [word for each in overrides_of(stored.schedule) for word in ("--set", each)]
    return rlft_command(
        *("run", "--name", run, "--tag", f"schedule={stored.name}", "--note", note),
        *changes,
        *_ends(stored, summary),
        *("--", stored.schedule.config),  # which may begin with a dash
    )


def resume_command(stored: Stored, run: str, summary: Path) -> list[str]:
    """Return the command that goes on with a run."""
    return rlft_command("resume", run, *_ends(stored, summary))


def _ends(stored: Stored, summary: Path) -> list[str]:
    stack = ["--stack", stored.schedule.stack] if stored.schedule.stack is not None else []
    return ["--summary", str(summary), *stack]


def run_name(firing: Firing) -> str:
    """Return the name of a firing's run: the schedule's, the firing's number, and when it was due, in UTC."""
    return f"{firing.schedule}-{firing.id}-{firing.due.astimezone(UTC):%Y-%m-%d-%H%MZ}"


def summary_file(home: Home, firing: Firing, number: int) -> Path:
    """Return where try `number` (from 1) of a firing leaves its summary, on whatever stack it runs.

    Numbers begin at 1 again in a store that is made anew; so the moment at which it was due is part of the name.
    """
    return folder_of(home) / "results" / f"{firing.id}-{firing.due.astimezone(UTC):%Y%m%dT%H%M%S%fZ}-{number}.json"


def forget_result(home: Home, firing: Firing, number: int) -> None:
    """Remove what lies where a try is to leave its summary, before the try is noted: it is that of another one."""
    summary_file(home, firing, number).unlink(missing_ok=True)


def forget_results(home: Home, firing: Firing) -> None:
    """Remove what firings of long ago have left: ZenML and MLflow have what their summaries say."""
    for file in (folder_of(home) / "results").glob("*.json"):
        number = file.name.partition("-")[0]
        if number.isdecimal() and int(number) <= firing.id - KEPT:
            file.unlink(missing_ok=True)


def log_file(home: Home, firing: Firing) -> Path:
    """Return where a firing that a scheduler has begun leaves what its processes print."""
    return folder_of(home) / LOGS / f"{firing.schedule}-{firing.id}.log"
