"""What every command runs in: quiet logs, and errors as messages with an exit code instead of tracebacks.

An error by which a machine says that room or memory is missing becomes one sentence.
"""

from __future__ import annotations

import importlib
import logging
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, NoReturn

import typer
from rich.logging import RichHandler

from mlops.home.folder import Home, find_home, stay_in
from mlops.home.processes import with_command
from mlops.home.variables import quieten
from mlops.runs.signals import ignore, signalled, when_late
from mlops.summary.file import SUMMARY_FILE, clear_target, failed, keep_summary, summary_since, write_summary
from mlops.summary.summary import Summary
from rlft.errors import SAID, MemoryShortError, RlftError, Shortage, StorageError, shortage_of
from rlft.files import OWN_PACKAGES
from rlft.reporting.terminal import errors, styled, visible_logs
from rlft.texts.characters import visible
from rlft.texts.secrets import hide

INTERRUPTED: Final = "interrupted"


@dataclass
class Begun:
    """What a command tells of the run that it begins.

    `started` is the command's own beginning, in seconds since the epoch, `folder` that of the run, and `resume` the
    command that goes on with it. `repeated` says that giving the same command again does.
    """

    started: float = field(default_factory=time.time)
    folder: Path | None = None
    resume: str | None = None
    repeated: bool = False

    def left(self) -> Summary | None:
        """Return the summary of the run; `None` if it has not begun."""
        return summary_since(self.folder, self.started)


@contextmanager
def guarded(verbose: bool, summary: Path | None) -> Iterator[Begun]:
    """Set up logs, and turn every error into a message and an exit code; the trace of an unexpected one goes to a file.

    `summary` is the file that `--summary` names: a command that fails leaves one there that says so. What comes out of
    a command after a signal is the interrupt. Raises typer.Exit.
    """
    quieten(verbose)
    _show_logs(verbose)
    begun = Begun()
    try:
        clear_target(summary)
    except RlftError as error:
        _end(error, None, begun)
    with _told(summary, begun):
        yield begun


@contextmanager
def _told(summary: Path | None, begun: Begun) -> Iterator[None]:
    """Turn an error into a message, a summary that says it, and typer.Exit."""
    _import_from_working_directory()
    when_late(lambda: _end_interrupted(summary, begun))
    try:
        with visible_logs(), stay_in(find_home()):
            yield
    except BaseException as error:  # an environment may raise SystemExit, whose text Python would print as it is
        if isinstance(error, typer.Exit) or (isinstance(error, KeyboardInterrupt) and not signalled()):
            raise
        if signalled():
            _end_interrupted(summary, begun)
        resume = begun.resume if begun.resume and begun.left() else None
        if isinstance(error, RlftError):
            _end(error, summary, begun, resume)
        if short := shortage_error(error, find_home(), resume):
            _end(short, summary, begun)
        _tell_unexpected(error, resume)
        _fail(summary, begun, hide(f"{type(error).__name__}: {error}"))
        raise typer.Exit(1) from None


def _end_interrupted(target: Path | None, begun: Begun) -> NoReturn:
    """Say in one sentence what there is to go on with, write the summary down, and raise typer.Exit."""
    ignore()
    if (left := begun.left()) is not None and begun.folder is not None:
        state = f"`{begun.resume}` goes on from here"
        if left.status == "running":
            left = failed(left, INTERRUPTED, time.time() - begun.started, status=INTERRUPTED)
            keep_summary(begun.folder, left)
        elif left.status not in ("failed", INTERRUPTED):
            state = f"the run had ended, and its summary is {begun.folder / SUMMARY_FILE}"
    else:
        left = Summary(status=INTERRUPTED, error=INTERRUPTED)
        state = (
            "giving the same command again goes on from here"
            if begun.repeated
            else "no run was going on in this process"
        )
    with suppress(OSError, SystemExit):  # nobody reads it: the same Ctrl-C ends a `tee`; rich raises SystemExit then
        if errors.is_terminal:  # a progress bar has left its line and no cursor
            errors.show_cursor()
            errors.print()
        errors.print(styled(INTERRUPTED, "yellow"), f"; {state}", sep="", soft_wrap=True, highlight=False)
    if target is not None:
        write_summary(target, left)
    raise typer.Exit(128 + signalled()) from None


def _end(error: RlftError, summary: Path | None, begun: Begun, resume: str | None = None) -> NoReturn:
    """Print an error, leave a summary that says it, and raise typer.Exit with the error's exit code.

    `resume` is the command that goes on with the run, if one has begun.
    """
    said = hide(with_command(str(error), resume))
    errors.print(styled("error", "red"), said)
    _fail(summary, begun, said)
    raise typer.Exit(error.exit_code) from None


def _tell_unexpected(error: BaseException, resume: str | None) -> None:
    """Print an error that nobody has foreseen, and where its trace is."""
    from rlft.environments.contract.faults import described

    trace = keep_trace(error)
    errors.print(styled("unexpected error", "red"), described(error))
    goes_on = f"; `{resume}` goes on from there" if resume else ""
    errors.print(f"  the whole trace is in {trace}{goes_on}")


def keep_trace(error: BaseException) -> str:
    """Write an error's trace, without secrets and safe to look at in a terminal, to a file; returns where it is.

    It goes to the home's `logs`; if that takes nothing it is printed.
    """
    text, home = visible(hide("".join(traceback.format_exception(error)))), find_home()
    file = home.root / "logs" / f"rlft-error-{datetime.now():%Y%m%d-%H%M%S}.txt"
    try:
        home.make()
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except (OSError, StorageError) as cause:
        errors.print(f"{file} cannot be written: {cause}")
        errors.print(text)
        return "(printed above)"
    return str(file)


_SHORTAGES: dict[Shortage, str] = {
    "disk": "make room there or for temporary files (TMPDIR), or copy it to another disk and set RLFT_HOME",
    "memory": "free memory, or use a smaller model or smaller batches",
    "gpu": "free memory, or use a smaller model or smaller batches",
}


def shortage_error(error: BaseException, home: Home, resume: str | None) -> RlftError | None:
    """Return the sentence for an error by which room or memory is missing; `None` for any other error.

    `resume` is the command that goes on with the run, if one has begun.
    """
    if (kind := shortage_of(error)) is None:
        return None
    fix = _SHORTAGES[kind] + (f", then `{resume}`" if resume else ", then start again")
    return (
        StorageError(SAID[kind], where=str(home.root), fix=fix)
        if kind == "disk"
        else MemoryShortError(SAID[kind], fix=fix)
    )


def _import_from_working_directory() -> None:
    """Let environments be imported from the working directory, where they often lie beside the config."""
    for name in OWN_PACKAGES:
        importlib.import_module(name)  # first: a user's own repository may well have folders `steps` and `pipelines`
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def _show_logs(verbose: bool) -> None:
    """Show rlft's own logs, short or full, and warnings: not by the root logger, whose handlers are ZenML's."""
    handler = RichHandler(console=errors, show_path=False, show_time=verbose, show_level=verbose)
    for name in (*OWN_PACKAGES, "py.warnings"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    if not verbose:  # vLLM warns at every start of what torch will change
        warnings.filterwarnings("ignore", category=FutureWarning, module=r"vllm\.")


def _fail(target: Path | None, begun: Begun, reason: str) -> None:
    """Write the summary of a command that failed to `target`, the file that `--summary` names, if there is one."""
    if target is not None:
        write_summary(target, failed(begun.left() or Summary(status="failed"), reason))
