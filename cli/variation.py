"""One run of a sweep: a process of its own, which the signals of the sweep reach."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mlops.home.folder import PROJECT, Home
from mlops.runs.listing import list_runs
from mlops.runtime.signals import Signals
from mlops.summary.summary import Summary
from rlft.sweep import Changes

if TYPE_CHECKING:
    from mlops.record.sweep import SweptRun

INTERRUPTED = 128  # and the number of the signal: how shells tell of a process that one has ended


@dataclass(frozen=True, slots=True)
class Sweep:
    """What `rlft run` was given beside the `sweeps`, for each run of it."""

    config: Path
    sweeps: list[str]
    overrides: list[str] = field(default_factory=list)
    stack: str | None = None
    no_cache: bool = False
    name: str | None = None
    note: str | None = None
    tags: list[str] = field(default_factory=list)
    verbose: bool = False
    as_json: bool = False  # of the sweep alone: what its runs print goes to stderr then

    def command(self, name: str, changes: Changes, parent: str | None, summary: Path | None) -> list[str]:
        """Return the command of one run."""
        given = [*self.overrides, *(f"{key}={value}" for key, value in changes.items())]
        values = {"--stack": self.stack, "--note": self.note, "--parent": parent, "--name": name, "--summary": summary}
        return [
            *(sys.executable, "-P", "-m", "cli", "run", str(self.config)),
            *(part for each in given for part in ("--set", each)),
            *(part for each in self.tags for part in ("--tag", each)),
            *(part for option, value in values.items() if value is not None for part in (option, str(value))),
            *(["--no-cache"] if self.no_cache else []),
            *(["--verbose"] if self.verbose else []),
        ]


def texts_of(changes: Changes) -> list[str]:
    """Return changes as `--set` takes them."""
    return [f"{key}={value}" for key, value in changes.items()]


def run_variation(
    home: Home, sweep: Sweep, name: str, changes: Changes, parent: str | None, signals: Signals
) -> SweptRun:
    """Run one variation in a process of its own, which takes all memory with it when it ends.

    `name` is that of the run, and `parent` the id of the sweep's MLflow run.
    """
    from mlops.record.sweep import SweptRun

    with tempfile.TemporaryDirectory(prefix="rlft-sweep-") as folder:
        target = Path(folder) / "summary.json" if sweep.stack else None
        path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
        command = sweep.command(name, changes, parent, target)
        environment = os.environ | {"PYTHONPATH": path}
        output = sys.stderr if sweep.as_json else None
        signals.process = process = subprocess.Popen(command, env=environment, stdout=output)
        code = process.wait()
        signals.process = None
        summary = _given(target) if target else _kept(home, name)
    return SweptRun(name, changes, code if code >= 0 else INTERRUPTED - code, summary)


def _given(target: Path) -> Summary | None:
    """Return the summary of a run on a stack; `None` if it left none."""
    try:
        return Summary.model_validate_json(target.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _kept(home: Home, name: str) -> Summary | None:
    """Return the summary of a run in the home; `None` if it did not begin."""
    return next((run.summary for run in list_runs(home).runs if run.name == name), None)
