"""`rlft run --sweep`: one run after another, each with other settings, nested in one run of MLflow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import typer
from rich.table import Table

from cli.start import check_start, say_start
from mlops.clone import PROJECT
from mlops.display.terminal import console, errors
from mlops.home.entries import check_entries
from mlops.home.folder import Home, find_home
from mlops.runs.labels import make_labels, timed_name
from mlops.runs.listing import list_runs
from mlops.runs.summary import Summary
from mlops.runtime.signals import SIGNALS
from rlft.config import Config
from rlft.config.file import load_config
from rlft.errors import ConfigError
from rlft.files import write_file
from rlft.sweep import Changes, short_name, variations

if TYPE_CHECKING:
    from mlops.runs.sweep import SweptRun

_INTERRUPTED = 128  # and the number of the signal, as shells have it


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


def run_sweep(sweep: Sweep, summary: Path | None) -> NoReturn:
    """Run every variation, one after the other, show what they came to, and raise typer.Exit.

    Everything is checked before the first run begins. Raises RlftError for what cannot be used. The exit code is that
    of the first run that did not end with 0. A signal ends the run that goes on, and with it the sweep.
    """
    home = find_home()
    check_entries(home)
    varied = variations(sweep.sweeps)
    settings = _checked(home, sweep, varied)
    own, names = _names(sweep, settings.name, varied)
    for name in (own, *names):
        make_labels(settings.name, name=name, note=sweep.note, tags=sweep.tags, commits={})
    say_start(own)
    from mlops.runs.labels import refuse_taken
    from mlops.runs.sweep import close_sweep, note_result, open_sweep
    from mlops.stacks.stack import connect

    uri = connect(home, sweep.stack)
    for name in names:
        refuse_taken(name)
    tracker = open_sweep(home, settings, uri, own, sweep.sweeps)
    status = "FAILED"
    runs: list[SweptRun] = []
    try:
        for name, changes in zip(names, varied, strict=True):
            errors.print(f"run {len(runs) + 1} of {len(names)}: {', '.join(_texts(changes))}")
            ended = _run(home, sweep, name, changes, tracker.run_id)
            runs.append(ended)
            note_result(tracker, runs, sweep.note or "")
            if ended.exit_code > _INTERRUPTED:
                status = "KILLED"
                break
        else:
            status = "FINISHED"
    finally:
        close_sweep(tracker, runs, status)
    _tell(own, tracker.run_id, runs, len(names), summary)
    raise typer.Exit(next((run.exit_code for run in runs if run.exit_code), 0))


def _checked(home: Home, sweep: Sweep, varied: Sequence[Changes]) -> Config:
    """Return the config of the first run. Raises RlftError if that of any run cannot be used."""
    settings = [load_config(sweep.config, [*sweep.overrides, *_texts(changes)]) for changes in varied]
    if len({(each.name, each.tracking.experiment) for each in settings}) > 1:
        fix = "sweep other settings: MLflow nests runs within one experiment"
        raise ConfigError("the runs would be in different experiments", where="--sweep", fix=fix)
    for each in settings:
        check_start(each, home, stack=sweep.stack)
    return settings[0]


def _names(sweep: Sweep, experiment: str, varied: Sequence[Changes]) -> tuple[str, list[str]]:
    """Return the name of the sweep and those of its runs, which tell what differs, and their number if it is needed."""
    differing = [short_name(changes) for changes in varied]
    if len(set(differing)) < len(differing):  # cut off, or signs were replaced
        differing = [f"{number},{each}" for number, each in enumerate(differing, 1)]
    if sweep.name is not None:
        return sweep.name, [f"{sweep.name}-{each}" for each in differing]
    timed = timed_name("", sweep.overrides)
    keys = "+".join(key.rsplit(".", 1)[-1] for key in varied[0])
    return f"{experiment}-sweep-{keys}{timed}", [f"{experiment}-{each}{timed}" for each in differing]


def _texts(changes: Changes) -> list[str]:
    return [f"{key}={value}" for key, value in changes.items()]


def _run(home: Home, sweep: Sweep, name: str, changes: Changes, parent: str | None) -> SweptRun:
    """Run one variation in a process of its own, which takes all memory with it when it ends."""
    from mlops.runs.sweep import SweptRun

    with tempfile.TemporaryDirectory(prefix="rlft-sweep-") as folder:
        target = Path(folder) / "summary.json" if sweep.stack else None
        path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
        process = subprocess.Popen(sweep.command(name, changes, parent, target), env=os.environ | {"PYTHONPATH": path})
        with _forwarded(process):
            code = process.wait()
        summary = _given(target) if target else _kept(home, name)
    return SweptRun(name, changes, code if code >= 0 else _INTERRUPTED - code, summary)


def _given(target: Path) -> Summary | None:
    """Return the summary of a run on a stack; `None` if it left none."""
    try:
        return Summary.model_validate_json(target.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _kept(home: Home, name: str) -> Summary | None:
    """Return the summary of a run in the home; `None` if it did not begin."""
    return next((run.summary for run in list_runs(home).runs if run.name == name), None)


@contextmanager
def _forwarded(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Hand signals on to a process, which may have had them already, instead of ending this one."""

    def forward(number: int, frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            process.send_signal(number)

    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, forward)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(name: str, run_id: str | None, runs: Sequence[SweptRun], planned: int, summary: Path | None) -> None:
    """Print what the runs came to, and write it to the file that `--summary` names."""
    from mlops.runs.sweep import result_of, table_of

    result = {"name": name, "mlflow_run_id": run_id, "planned": planned, **result_of(runs)}
    if summary is not None:
        write_file(summary, json.dumps(result, indent=1))
    columns, rows = table_of(runs)
    table = Table(*columns, title=f"{name}: {len(runs)} of {planned} runs", title_justify="left")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for run in runs:
        if run.exit_code:
            console.print(f"{run.name} ended with exit code {run.exit_code} ({run.status}).")
    scored = [quote(run.name) for run in runs if run.score]
    if len(rows) > 1 and len(scored) > 1:
        console.print("Whether one setting is better than another, and how many seeds would tell:")
        console.print(f"rlft compare {' '.join(scored)}", soft_wrap=True)
