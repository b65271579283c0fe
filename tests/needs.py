"""What a test needs and a machine may lack: skipped there, with one closing line, and a failure in CI."""

import importlib.util
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from rlft.errors import EnvironmentSetupError
from rlft.sandbox.bubblewrap import INSTALL
from rlft.sandbox.process import find_program

_SKIPPED = "Skipped: needs "


def need(there: bool, what: str, fix: str) -> None:
    """Skip where something is not there; with `CI=true` fail."""
    if not there:
        reason = f"needs {what} ({fix})"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


def need_vllm() -> None:
    """For tests that sample with vLLM."""
    need(importlib.util.find_spec("vllm") is not None, "vLLM", "make setup-vllm")


def need_ray() -> None:
    """For tests that train with several processes."""
    need(importlib.util.find_spec("ray") is not None, "Ray", "make setup-ray")


def need_bubblewrap() -> None:
    """For tests that run programs in the sandbox. Installed is enough: one that does not work is a failure."""
    try:
        find_program("bwrap", INSTALL)
    except EnvironmentSetupError:
        need(False, "bubblewrap", "apt-get install bubblewrap")


def need_chromium() -> str:
    """For tests that read pages in a browser; returns the program."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    need(found is not None, "chromium", "apt-get install chromium")
    assert found is not None
    return found


def need_systemd() -> str:
    """For tests that have systemd check units; returns the program. It need not be what runs the machine."""
    return _program("systemd-analyze", "systemd")


def need_team() -> None:
    """For tests that run the servers of a team."""
    servers = Path(sys.prefix) / "servers" / "bin" / "python"
    there = servers.exists() and importlib.util.find_spec("s3fs") is not None
    need(there, "a team's servers", "make setup-team-tests")
    is_installed = shutil.which("initdb") or list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    need(bool(is_installed), "PostgreSQL", "apt-get install postgresql")


def need_crontab() -> str:
    """For tests that have cron check lines; returns the program."""
    return _program("crontab", "cron")


def _program(name: str, package: str) -> str:
    found = shutil.which(name)
    need(found is not None, name, f"apt-get install {package}")
    assert found is not None
    return found


def closing_line(reasons: Iterable[str]) -> str:
    """How many tests were skipped for want of what, and how to get it; empty when none was."""
    counts = Counter(reason.removeprefix(_SKIPPED) for reason in reasons if reason.startswith(_SKIPPED))
    parts = [f"{count} for want of {what}" for what, count in counts.most_common()]
    tests = "1 test was" if counts.total() == 1 else f"{counts.total()} tests were"
    return f"{tests} skipped: {', '.join(parts)}" if parts else ""
