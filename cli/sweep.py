"""`rlft run --sweep`: one run after another, each with other settings, and the command that compares them.

Each is a process of its own, which takes all memory with it when it ends, and which the signals of the sweep reach.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from shlex import quote
from typing import NoReturn

import typer

from cli.start import check_start, say_start
from mlops.home.folder import PROJECT, Home, find_home
from mlops.runs.labels import default_name, make_labels, refuse_taken, short_names
from mlops.runs.signals import Interrupted, signalled
from rlft.config import Config
from rlft.config.file import holds_secret, load_config
from rlft.errors import ConfigError
from rlft.reporting.terminal import console, errors

MOST_RUNS = 100
Changes = dict[str, str]
"""Settings by their keys, each with a value as `--set` takes it."""
PARENT = "RLFT_SWEEP"  # the variable with the name of the sweep that a run belongs to
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

    def command(self, name: str, changes: Changes) -> list[str]:
        """Return the command of one run."""
        given = [*self.overrides, *(f"{key}={value}" for key, value in changes.items())]
        values = {"--stack": self.stack, "--name": name}
        return [
            *(sys.executable, "-P", "-m", "cli", "run", str(self.config)),
            *(part for each in given for part in ("--set", each)),
            *(part for each in self.tags for part in ("--tag", each)),
            *(part for option, value in values.items() if value is not None for part in (option, value)),
            *(["--no-cache"] if self.no_cache else []),
            *(["--verbose"] if self.verbose else []),
        ]


def run_sweep(sweep: Sweep) -> NoReturn:
    """Run every variation, one after the other, say how they ended, and raise typer.Exit.

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

    connect(home, sweep.stack)
    for name in names:
        refuse_taken(name)
    codes = dict[str, int]()
    for name, changes in zip(names, varied, strict=True):
        errors.print(f"run {len(codes) + 1} of {len(names)}: {', '.join(texts_of(changes))}")
        codes[name] = run_variation(sweep, name, changes, own)
        if signalled() or codes[name] > INTERRUPTED:
            break
    tell_end(codes, names)
    code = next(filter(None, codes.values()), 0)
    raise typer.Exit(code or (INTERRUPTED + signalled() if signalled() else 0))


def variations(sweeps: Sequence[str]) -> list[Changes]:
    """Return every combination of the values of all sweeps, each of which is a text `KEY=VALUE,VALUE`.

    The last sweep varies fastest. A comma within brackets, braces or quotes belongs to a value. Raises ConfigError for
    another form, a key or value that is given twice, and more than `MOST_RUNS` combinations.
    """
    values = dict[str, list[str]]()
    for sweep in sweeps:
        key, separator, text = sweep.partition("=")
        found = [value.strip() for value in split_values(text)]
        if not separator or not key.strip() or not all(found):
            raise _refused(f"{sweep!r:.80} is no sweep", "write KEY=VALUE,VALUE, as in --sweep seed=0,1,2")
        if key in values:
            raise _refused(f"{key} is swept twice", "give all its values in one --sweep")
        if repeated := [value for value, count in Counter(found).items() if count > 1]:
            raise _refused(f"{key} has the value {repeated[0]!r:.80} twice", "give every value once")
        values[key] = found
    combined = [dict(zip(values, each, strict=True)) for each in product(*values.values())]
    if not 2 <= len(combined) <= MOST_RUNS:
        raise _refused(f"these make {len(combined)} run(s)", f"give values for 2 to {MOST_RUNS} runs")
    return combined


def split_values(text: str) -> list[str]:
    """Return the parts between commas that stand outside of brackets, braces and quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character in "[{(") - (character in "]})")
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _refused(what: str, fix: str) -> ConfigError:
    return ConfigError(what, where="--sweep", fix=fix)


def _checked(home: Home, sweep: Sweep, varied: Sequence[Changes]) -> Config:
    """Return the config of the first run. Raises RlftError if that of any run cannot be used."""
    if secret := next((text for changes in varied for text in texts_of(changes) if holds_secret(text)), None):
        fix = "let it name a variable of the environment, env:NAME, and sweep something else"
        raise ConfigError(
            f"{secret.partition('=')[0]} looks like a secret, and would stand in names", where="--sweep", fix=fix
        )
    settings = [load_config(sweep.config, [*sweep.overrides, *texts_of(changes)]) for changes in varied]
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


def texts_of(changes: Changes) -> list[str]:
    """Return changes as `--set` takes them."""
    return [f"{key}={value}" for key, value in changes.items()]


def run_variation(sweep: Sweep, name: str, changes: Changes, parent: str) -> int:
    """Run one variation in a process of its own, which takes all memory with it when it ends; returns its exit code.

    `name` is that of the run, and `parent` that of the sweep.
    """
    path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(sweep.command(name, changes), env=os.environ | {"PYTHONPATH": path, PARENT: parent})
    try:
        code = process.wait()
    except Interrupted:
        process.send_signal(signalled())  # which it may have had already
        code = process.wait()
    return code if code >= 0 else INTERRUPTED - code
