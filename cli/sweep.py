"""`rlft run --sweep`: one run after another, each with other settings, nested in one run of MLflow.

Each is a process of its own, which takes all memory with it when it ends, and which the signals of the sweep reach.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from cli.result import drawn
from cli.start import check_start, say_start
from mlops.home.folder import PROJECT, Home, find_home
from mlops.runs.labels import default_name, make_labels, refuse_taken
from mlops.runs.signals import Interrupted, signalled
from mlops.runs.store import RunStore
from mlops.summary.file import SUMMARY_FILE, read_summary, write_asked
from rlft.config import Config
from rlft.config.file import holds_secret, load_config
from rlft.errors import ConfigError
from rlft.evaluation.sweep import Changes, short_names, variations
from rlft.reporting.terminal import console, errors

if TYPE_CHECKING:
    from pipelines.sweep import SweptRun


PARENT = "RLFT_SWEEP"  # the variable with the id of the MLflow run of the sweep that a run belongs to
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
    tags: list[str] = field(default_factory=list)
    verbose: bool = False
    as_json: bool = False  # of the sweep alone: what its runs print goes to stderr then

    def command(self, name: str, changes: Changes, summary: Path | None) -> list[str]:
        """Return the command of one run."""
        given = [*self.overrides, *(f"{key}={value}" for key, value in changes.items())]
        values = {"--stack": self.stack, "--name": name, "--summary": summary}
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
    varied = variations(sweep.sweeps)
    settings = _checked(home, sweep, varied)
    own, names = _names(sweep, settings.name, varied)
    for name in (own, *names):
        make_labels(settings.name, name=name, tags=sweep.tags, commits={})
    say_start(own)
    from mlops.stacks.stack import connect
    from pipelines.sweep import base_name, close_sweep, note_result, open_sweep

    uri = connect(home, sweep.stack)
    for name in names:
        refuse_taken(name)
    status, base = "failed", base_name(sweep.overrides)
    runs: list[SweptRun] = []
    tracker = open_sweep(home, settings, uri, own, sweep.sweeps)
    try:
        for name, changes in zip(names, varied, strict=True):
            errors.print(f"run {len(runs) + 1} of {len(names)}: {', '.join(texts_of(changes))}")
            runs.append(run_variation(home, sweep, name, changes, tracker.run_id))
            note_result(tracker, runs, names, base)
            if signalled() or runs[-1].exit_code > INTERRUPTED:
                status = "killed"
                break
        else:
            status = "finished"
    finally:
        close_sweep(tracker, runs, names, status.upper())
    known = {"name": own, "status": status, "mlflow_run_id": tracker.run_id}
    _tell(known, runs, names, base, summary, as_json=sweep.as_json)
    code = next((run.exit_code for run in runs if run.exit_code), 0)
    raise typer.Exit(code or (INTERRUPTED + signalled() if signalled() else 0))


def _checked(home: Home, sweep: Sweep, varied: Sequence[Changes]) -> Config:
    """Return the config of the first run. Raises RlftError if that of any run cannot be used."""
    if secret := next((text for changes in varied for text in texts_of(changes) if holds_secret(text)), None):
        fix = "let it name a variable of the environment, env:NAME, and sweep something else"
        raise ConfigError(
            f"{secret.partition('=')[0]} looks like a secret, and would stand in names", where="--sweep", fix=fix
        )
    settings = [load_config(sweep.config, [*sweep.overrides, *texts_of(changes)]) for changes in varied]
    if len({(each.name, each.tracking.experiment) for each in settings}) > 1:
        fix = "sweep other settings: MLflow nests runs within one experiment"
        raise ConfigError("the runs would be in different experiments", where="--sweep", fix=fix)
    for each in settings:
        check_start(each, home, stack=sweep.stack)
    return settings[0]


def _names(sweep: Sweep, experiment: str, varied: Sequence[Changes]) -> tuple[str, list[str]]:
    """Return the name of the sweep and those of its runs, which tell what differs, and a digest if it is needed."""
    differing = short_names(varied)
    if sweep.name is not None:
        return sweep.name, [f"{sweep.name}-{each}" for each in differing]
    rest = f"-{default_name('', sweep.overrides)}"
    keys = "+".join(key.rsplit(".", 1)[-1] for key in varied[0])
    return f"{experiment}-sweep-{keys}{rest}", [f"{experiment}-{each}{rest}" for each in differing]


def _tell(
    known: dict[str, Any],
    runs: Sequence[SweptRun],
    planned: Sequence[str],
    base: str,
    target: Path | None,
    *,
    as_json: bool,
) -> None:
    """Print what the runs came to, and write it to `target`; `known` is said of the sweep, `base` is their `base_name`.

    By `status` and `pipeline_run_id` the next command knows the file for a summary that it may replace.
    """
    from pipelines.sweep import not_begun, result_of, table_of

    result = {**known, "pipeline_run_id": None, "planned": len(planned), **result_of(runs, planned)}
    if target is not None:
        write_asked(target, json.dumps(result, indent=1))
    if as_json:
        console.write_json(result)
        return
    table = table_of(runs, title=f"{known['name']}: {len(runs)} of {len(planned)} runs", base=base)
    console.print(drawn(table))
    for run in runs:
        if run.exit_code:
            console.print(f"{run.name} ended with exit code {run.exit_code} ({run.status}).")
    for missing in not_begun(runs, planned):
        console.print(f"{missing} has not begun.")
    scored = [quote(run.name) for run in runs if run.score]
    if len(table.rows) > 1 and len(scored) > 1:
        console.print("Whether one setting is better than another:")
        console.print(f"rlft compare {' '.join(scored)}", soft_wrap=True)


def texts_of(changes: Changes) -> list[str]:
    """Return changes as `--set` takes them."""
    return [f"{key}={value}" for key, value in changes.items()]


def run_variation(home: Home, sweep: Sweep, name: str, changes: Changes, parent: str | None) -> SweptRun:
    """Run one variation in a process of its own, which takes all memory with it when it ends.

    `name` is that of the run, and `parent` the id of the sweep's MLflow run. On a stack the run leaves its summary in a
    file, as it may be another machine's.
    """
    from pipelines.sweep import SweptRun

    with tempfile.TemporaryDirectory(prefix="rlft-sweep-") as folder:
        target = Path(folder) / SUMMARY_FILE if sweep.stack else None
        path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
        output = sys.stderr if sweep.as_json else None
        command = sweep.command(name, changes, target)
        process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path, PARENT: parent or ""}, stdout=output)
        try:
            code = process.wait()
        except Interrupted:
            process.send_signal(signalled())  # which it may have had already
            code = process.wait()
        if target is None:
            kept = RunStore(home).called(name)
            summary = kept and kept.summary()
        else:
            summary = read_summary(target.parent)
    return SweptRun(name, changes, code if code >= 0 else INTERRUPTED - code, summary)
