"""The file that `--summary` names: what cannot be one is refused before anything is loaded, and stays as it is."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from mlops.home.folder import Home
from mlops.summary.file import summary_text
from mlops.summary.summary import Summary
from rlft.errors import ConfigError
from rlft.files import why_not_writable, write_file
from rlft.terminal import errors

_MOST_BYTES = 16 << 20  # of what may be a summary


@contextmanager
def held_target(target: Path | None, home: Home) -> Iterator[None]:
    """Keep the file for this process, and remove an older summary, so that nobody takes it for that of this run.

    Raises ConfigError if no summary can be written there, or if it is that of a command that goes on.
    """
    if target is None:
        yield
        return
    if home.keeps(target):
        raise _refused(target, f"{home.root} holds the runs, and rlft may need this name there")
    if problem := why_not_writable(target):
        raise _refused(target, problem)
    with closing(_claim(target)):
        _remove_older(target)
        yield


def write_summary(target: Path, content: Summary) -> bool:
    """Write a run's summary to the file that `--summary` names, as `write_asked` does."""
    return write_asked(target, summary_text(content))


def write_asked(target: Path, text: str) -> bool:
    """Write the summary of a command to the file that `--summary` names; print why, and return False, if that fails.

    It is a copy for the caller, and what the command has done is told in any case.
    """
    try:
        write_file(target, text)
    except OSError as cause:
        errors.print(f"the summary could not be written to {target}: {cause}")
        return False
    return True


def _claim(target: Path) -> socket.socket:
    """Hold the file's name among the processes of this user; however this one ends, the kernel releases it.

    A socket of Linux without a file, as nothing may be left beside the user's files; elsewhere nothing is held.
    """
    held = socket.socket(socket.AF_UNIX)
    key = hashlib.sha256(os.fsencode(target)).hexdigest()[:32]
    try:
        if sys.platform == "linux":
            held.bind(f"\0rlft-summary-{os.getuid()}-{key}")
    except OSError as cause:
        held.close()
        raise _refused(target, "another command that goes on writes its summary to this file") from cause
    return held


def _remove_older(target: Path) -> None:
    """Remove an older summary. Raises ConfigError for a file that holds something else, or that cannot be removed."""
    try:
        is_small = target.stat().st_size <= _MOST_BYTES
        text = target.read_text(encoding="utf-8") if is_small else "not read"
        if text.strip():  # an empty file is the user's own preparation, as `mktemp` makes it
            content = json.loads(text)
            if not isinstance(content, dict) or not {"status", "pipeline_run_id"} <= set(content):
                raise ValueError("it has no status of a run")
    except FileNotFoundError:
        return
    except (OSError, ValueError, RecursionError) as cause:
        what = "this file is no summary of a run, so it is not overwritten"
        raise _refused(target, what, "let --summary name another file, or remove this one") from cause
    try:
        target.unlink(missing_ok=True)
    except OSError as cause:
        raise _refused(target, f"an older summary is there, which cannot be replaced: {cause}") from cause


def _refused(target: Path, what: str, fix: str = "let --summary name another file") -> ConfigError:
    return ConfigError(what, where=f"--summary {target}", fix=fix)
