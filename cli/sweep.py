"""`rlft run --sweep`: one run after another, each with other settings, and the command that compares them.

Each is a process of its own, which takes all memory with it when it ends, and which the signals of the sweep reach.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from shlex import quote
from typing import NoReturn

import typer

from mlops.home.folder import PROJECT
from mlops.runs.labels import default_name, short_name
from mlops.runs.signals import Interrupted, signalled
from rlft.config.file import load_config
from rlft.errors import ConfigError
from rlft.reporting.terminal import console, errors

INTERRUPTED = 128  # and the number of the signal: how shells tell of a process that one has ended


def run_sweep(
    config: Path, sweeps: Sequence[str], overrides: Sequence[str], name: str | None, options: Sequence[str]
) -> NoReturn:
    """Run every variation, one after the other, say how they ended, and raise typer.Exit.

    `options` are those of `rlft run` that each run is given. All configs are checked before the first run begins.
    Raises ConfigError for what cannot be used. The exit code is that of the first run that did not end with 0. A signal
    ends the run that goes on, and with it the sweep.
    """
    commands = dict[str, list[str]]()
    for changes in product(*map(changes_of, sweeps)):
        given = [*overrides, *changes]
        settings = load_config(config, given)
        differing = short_name(dict(each.split("=", 1) for each in changes))
        called = f"{name}-{differing}" if name else default_name(settings.name, given)
        if called in commands:
            fix = "leave --name out, and each gets digits of its own"
            raise ConfigError(f"two runs would be called {called!r}", where="--sweep", fix=fix)
        set_ = [part for each in given for part in ("--set", each)]
        commands[called] = ["run", str(config), *set_, *options, "--name", called]
    codes = dict[str, int]()
    for called, command in commands.items():
        errors.print(f"run {len(codes) + 1} of {len(commands)}: {called}")
        codes[called] = _run(command)
        if signalled() or codes[called] > INTERRUPTED:
            break
    tell_end(codes, list(commands))
    code = next(filter(None, codes.values()), 0)
    raise typer.Exit(code or (INTERRUPTED + signalled() if signalled() else 0))


def changes_of(sweep: str) -> list[str]:
    """Return what `KEY=VALUE,VALUE` sets, as `--set` takes it. Raises ConfigError for another form."""
    key, separator, text = sweep.partition("=")
    values = [value.strip() for value in text.split(",")]
    if not separator or not key.strip() or not all(values) or len({*values}) < len(values):
        fix = "write KEY=VALUE,VALUE, each value once, as in --sweep seed=0,1,2"
        raise ConfigError(f"{sweep!r:.80} is no sweep", where="--sweep", fix=fix)
    return [f"{key}={value}" for value in values]


def tell_end(codes: Mapping[str, int], planned: Sequence[str]) -> None:
    """Print with which exit codes the runs ended, by their names, and which of those planned have not begun."""
    for name, code in codes.items():
        console.print(f"{name} ended with exit code {code}.")
    for missing in planned[len(codes) :]:
        console.print(f"{missing} has not begun.")
    whole = [quote(name) for name, code in codes.items() if code == 0]
    if len(whole) > 1:
        console.print("What they came to, and whether one setting is better than another:")
        console.print(f"rlft compare {' '.join(whole)}", soft_wrap=True)


def _run(arguments: Sequence[str]) -> int:
    """Run a command in a process of its own, which takes all memory with it when it ends; returns its exit code."""
    path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-P", "-m", "cli", *arguments]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path})
    try:
        code = process.wait()
    except Interrupted:
        process.send_signal(signalled())  # which it may have had already
        code = process.wait()
    return code if code >= 0 else INTERRUPTED - code
