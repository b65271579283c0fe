"""What every command runs in: quiet logs, and errors as messages with an exit code instead of tracebacks."""

from __future__ import annotations

import importlib
import logging
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from shlex import quote

import typer
from rich.logging import RichHandler

from cli.interrupt import Interrupt, installed
from mlops.display.terminal import errors, styled, visible_logs
from mlops.home.folder import find_home, quieten
from mlops.runs.summary import Summary
from mlops.runs.summary_file import failed, summary_since, summary_text
from rlft.errors import RlftError, StorageError
from rlft.files import OWN_PACKAGES
from rlft.secrets import hide
from rlft.visible import visible


@contextmanager
def guarded(verbose: bool, summary: Path | None) -> Iterator[Interrupt]:
    """Set up logs, and turn every error into a message and an exit code; the trace of an unexpected one goes to a file.

    Yields the handler of Ctrl-C, which a command that begins a run tells the run's name. `summary` is the file that
    `--summary` names: a command that fails leaves one there that says so. Raises typer.Exit.
    """
    quieten(verbose)
    _show_logs(verbose)
    started = time.time()
    interrupt = installed() or Interrupt()
    interrupt.summary, interrupt.started = summary, started
    _import_from_working_directory()
    try:
        with visible_logs():
            yield interrupt
    except (typer.Exit, KeyboardInterrupt):
        raise
    except RlftError as error:
        said = hide(str(error))
        errors.print(styled("error", "red"), said)
        _fail(summary, started, said)
        raise typer.Exit(error.exit_code) from None
    except BaseException as error:  # an environment may raise SystemExit, whose text Python would print as it is
        from rlft.contract.faults import described

        trace = keep_trace(error)
        from mlops.home.stores import RESTORE, damaged_databases

        damaged = damaged_databases(find_home())
        for file, why in damaged.items():
            errors.print(styled("error", "red"), f"{file}: this database is damaged: {why}; {RESTORE}")
        if "database or disk is full" in str(error):  # SQLAlchemy would show the statement and its rows
            what = f"the disk is full: a database in {find_home().root} could not be written; make room there first"
            errors.print(styled("error", "red"), what)
        elif not damaged:
            errors.print(styled("unexpected error", "red"), described(error))
        errors.print(f"  the whole trace is in {trace}{_way_on(started, interrupt)}")
        _fail(summary, started, hide(f"{type(error).__name__}: {error}"))
        raise typer.Exit(1) from None


def _import_from_working_directory() -> None:
    """Let environments be imported from the working directory, where they often lie beside the config."""
    for name in OWN_PACKAGES:
        importlib.import_module(name)  # first: a user's own repository may well have folders `steps` and `pipelines`
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def keep_trace(error: BaseException) -> Path:
    """Write an error's trace, without secrets and safe to look at in a terminal, to a file; returns the file.

    It goes to the home's `logs`, else to the folder of temporary files. What no folder takes is printed.
    """
    text = visible(hide("".join(traceback.format_exception(error))))
    name = f"rlft-error-{datetime.now():%Y%m%d-%H%M%S}.txt"
    home = find_home()
    for folder in (home.root / "logs", Path(tempfile.gettempdir())):
        try:
            if folder.parent == home.root:
                home.make()
                folder.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        except (OSError, StorageError) as cause:
            errors.print(f"{folder} cannot be written: {cause}")
        else:
            return folder / name
    errors.print(text)
    return Path("(printed above)")


def _way_on(started: float, interrupt: Interrupt) -> str:
    """Return how to go on with the run of this command; nothing if it had begun none."""
    run = summary_since(find_home(), started).pipeline_run_id
    return f"; `rlft resume {quote(interrupt.run_name or run)}` goes on from there" if run else ""


def _show_logs(verbose: bool) -> None:
    """Show rlft's own logs, short or full. They are not passed on to the root logger, whose handlers are ZenML's."""
    handler = RichHandler(console=errors, show_path=False, show_time=verbose, show_level=verbose)
    for name in OWN_PACKAGES:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.DEBUG if verbose else logging.INFO)


def write_summary(target: Path, content: Summary) -> None:
    """Write a summary to the file that `--summary` names; print why if it cannot be written."""
    from rlft.files import write_file

    try:
        write_file(target, summary_text(content))
    except OSError as cause:
        errors.print(f"the summary could not be written to {target}: {cause}")


def _fail(target: Path | None, started: float, reason: str) -> None:
    """Write the summary of a command that failed to `target`, the file that `--summary` names, if there is one."""
    if target is not None:
        write_summary(target, failed(summary_since(find_home(), started), reason))
