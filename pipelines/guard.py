"""Around every command: quiet logs, and errors as messages with an exit code instead of tracebacks."""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import typer
from rich.logging import RichHandler

from pipelines.home import find_home, quieten
from pipelines.terminal import Terminal, styled, visible_logs
from rlft.errors import RlftError, StorageError
from rlft.secrets import hide, hide_in_logs
from rlft.visible import visible

errors = Terminal(stderr=True)


@contextmanager
def guarded(verbose: bool, summary: Path | None) -> Iterator[None]:
    """Set up logs, and turn every error into a message and an exit code; the trace goes to a file."""
    quieten(verbose)
    _show_logs(verbose)
    started = time.time()
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # environments are named by import path, often beside the config
    try:
        with visible_logs():
            yield
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        raise _interrupted(summary, started) from None
    except RlftError as error:
        said = hide(str(error))
        errors.print(styled("error", "red"), said)
        _fail(summary, started, said)
        raise typer.Exit(error.exit_code) from None
    except Exception as error:
        if _was_told_to_end(error):
            raise _interrupted(summary, started) from None
        trace = _keep_trace(hide(traceback.format_exc()))
        errors.print(styled("unexpected error", "red"), f"{type(error).__name__}: {hide(str(error))}")
        errors.print(f"  the whole trace is in {trace}; if the run had begun, `rlft resume` with its name goes on")
        _fail(summary, started, hide(f"{type(error).__name__}: {error}"))
        raise typer.Exit(1) from None


def _interrupted(summary: Path | None, started: float) -> typer.Exit:
    errors.print(styled("interrupted; `rlft resume` with the name printed above goes on from here", "yellow"))
    _fail(summary, started, "interrupted")
    return typer.Exit(130)


def _was_told_to_end(error: Exception) -> bool:
    """What ZenML makes of SIGTERM; it is not imported for this."""
    exceptions = sys.modules.get("zenml.exceptions")
    return exceptions is not None and isinstance(error, exceptions.RunInterruptedException)


def _keep_trace(text: str) -> Path:
    """Write a trace, to be looked at in a terminal, to the home, or where temporary files go if the home takes none."""
    name = f"rlft-error-{datetime.now():%Y%m%d-%H%M%S}.txt"
    home = find_home()
    for folder in (home.root / "logs", Path(tempfile.gettempdir())):
        try:
            if folder.parent == home.root:
                home.make()
                folder.mkdir(exist_ok=True)
            (folder / name).write_text(visible(text), encoding="utf-8")
        except (OSError, StorageError) as cause:
            errors.print(f"{folder} cannot be written: {cause}")
        else:
            return folder / name
    errors.print(text)
    return Path("(printed above)")


def _show_logs(verbose: bool) -> None:
    """Our own logs, quiet or full, without values of variables, as those of others are.

    Ours do not go up to the root logger, whose handlers are ZenML's.
    """
    hide_in_logs()
    handler = RichHandler(console=errors, show_path=False, show_time=verbose, show_level=verbose)
    for name in ("rlft", "pipelines", "steps", "materializers"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.DEBUG if verbose else logging.INFO)


def _fail(target: Path | None, started: float, reason: str) -> None:
    """Write the summary of a run that failed, where one was asked for: what it left since `started`, if it began."""
    if target is None:
        return
    from pipelines.files import write_file
    from pipelines.summary import empty_summary

    content = empty_summary("failed")
    try:
        for file in (find_home().root / "runs").glob("*.json"):
            if file.stat().st_mtime >= started and file.name.count(".") == 1:
                found = json.loads(file.read_text())
                content = found if found.get("process") == os.getpid() else content
        write_file(target, json.dumps({**content, "status": "failed", "error": reason}, indent=1))
    except OSError as cause:
        errors.print(f"the summary could not be written to {target}: {cause}")
