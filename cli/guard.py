"""What every command runs in: quiet logs, and errors as messages with an exit code instead of tracebacks."""

from __future__ import annotations

import importlib
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

import typer
from rich.logging import RichHandler

from cli.shortages import shortage_error
from mlops.display.terminal import errors, styled, visible_logs
from mlops.home.folder import Home, find_home, stay_in
from mlops.home.processes import own_note, with_command
from mlops.home.variables import quieten
from mlops.runtime.last_words import keep_trace, write_summary
from mlops.runtime.signals import Interrupt, installed
from mlops.summary.file import failed, summary_since
from mlops.summary.target import held_target
from rlft.errors import RlftError
from rlft.files import OWN_PACKAGES
from rlft.secrets import hide


@contextmanager
def guarded(verbose: bool, summary: Path | None) -> Iterator[Interrupt]:
    """Set up logs, and turn every error into a message and an exit code; the trace of an unexpected one goes to a file.

    Yields the handler of signals, which a command that begins a run tells the run's name. `summary` is the file that
    `--summary` names: a command that fails leaves one there that says so. Raises typer.Exit.
    """
    quieten(verbose)
    _show_logs(verbose)
    started = time.time()
    interrupt = installed() or Interrupt()
    with ExitStack() as held:
        try:
            held.enter_context(held_target(summary, find_home()))
        except RlftError as error:
            _end(error, None, started)
        interrupt.summary, interrupt.started = summary, started
        with _told(summary, interrupt):
            yield interrupt


@contextmanager
def _told(summary: Path | None, interrupt: Interrupt) -> Iterator[None]:
    """Turn an error into a message, a summary that says it, and typer.Exit."""
    started = interrupt.started
    _import_from_working_directory()
    try:
        with visible_logs(), stay_in(find_home()):
            yield
    except (typer.Exit, KeyboardInterrupt):
        raise
    except RlftError as error:
        _end(error, summary, started, _way_on(find_home(), started, interrupt))
    except BaseException as error:  # an environment may raise SystemExit, whose text Python would print as it is
        home = find_home()
        resume = _way_on(home, started, interrupt)
        if short := shortage_error(error, home, resume):
            _end(short, summary, started)
        _tell_unexpected(error, home, resume)
        _fail(summary, started, hide(f"{type(error).__name__}: {error}"))
        raise typer.Exit(1) from None


def _end(error: RlftError, summary: Path | None, started: float, resume: str | None = None) -> NoReturn:
    """Print an error, leave a summary that says it, and raise typer.Exit with the error's exit code.

    `resume` is the command that goes on with the run, if one has begun.
    """
    said = hide(with_command(str(error), resume))
    errors.print(styled("error", "red"), said)
    _fail(summary, started, said)
    raise typer.Exit(error.exit_code) from None


def _tell_unexpected(error: BaseException, home: Home, resume: str | None) -> None:
    """Print an error that nobody has foreseen, or what it says of the home's databases, and where its trace is."""
    from mlops.home.faults import explained
    from rlft.contract.faults import described

    trace = keep_trace(error)
    told = explained(home, error)
    for each in told:
        errors.print(styled("error", "red"), hide(str(each)))
    if not told:
        errors.print(styled("unexpected error", "red"), described(error))
    goes_on = f"; `{resume}` goes on from there" if resume else ""
    errors.print(f"  the whole trace is in {trace}{goes_on}")


def _import_from_working_directory() -> None:
    """Let environments be imported from the working directory, where they often lie beside the config."""
    for name in OWN_PACKAGES:
        importlib.import_module(name)  # first: a user's own repository may well have folders `steps` and `pipelines`
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def _way_on(home: Home, started: float, interrupt: Interrupt) -> str | None:
    """Return the command that goes on with the run of this command; `None` if it had begun none that is resumed."""
    if interrupt.resume is None:
        return None  # and a home that cannot be read is not looked into
    has_begun = own_note(home) is not None or summary_since(home, started).pipeline_run_id is not None
    return interrupt.resume if has_begun else None


def _show_logs(verbose: bool) -> None:
    """Show rlft's own logs, short or full. They are not passed on to the root logger, whose handlers are ZenML's."""
    handler = RichHandler(console=errors, show_path=False, show_time=verbose, show_level=verbose)
    for name in OWN_PACKAGES:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.DEBUG if verbose else logging.INFO)


def _fail(target: Path | None, started: float, reason: str) -> None:
    """Write the summary of a command that failed to `target`, the file that `--summary` names, if there is one."""
    if target is not None:
        write_summary(target, failed(summary_since(find_home(), started), reason))
